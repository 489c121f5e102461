//! How much memory this process takes.

use std::fs;

/// The most memory that this process held so far, in bytes, where the system tells.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Begins to count [`peak_rss_bytes`] anew, where the system can (Linux).
pub fn forget_peak_rss() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

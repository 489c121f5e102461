//! Memory use of this process.

use std::fs;

/// Returns the maximum resident memory of this process so far, in bytes; `None` on systems other
/// than Linux.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Resets the maximum that [`peak_rss_bytes`] returns to the present memory use. Does nothing on
/// systems other than Linux.
pub fn reset_peak_rss() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

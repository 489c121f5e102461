//! The allocator, and when it returns freed memory to the kernel.

use std::alloc::{GlobalAlloc, Layout};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;

// Burn allocates and frees whole tensors all the time. The system's allocator would return their
// memory pages to the kernel, and each new tensor would cause page faults again.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Ends the process with a message if there is no memory, where others abort it.
struct Allocator;

// SAFETY: all calls are passed on to an allocator, with their arguments.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        given(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        given(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        given(unsafe { MiMalloc.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { MiMalloc.dealloc(memory, layout) }
    }
}

fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() && is_first_to_say() {
        let what = "a smaller beam, batch or model may do, or a higher `ulimit -v` or `-d`";
        let _ = writeln!(
            io::stderr(),
            "error: no memory for {size} more bytes; {what}"
        );
    }
    if memory.is_null() {
        std::process::exit(1);
    }
    memory
}

/// Returns true for the first caller, who says why the program ends. Where there is no memory, several
/// threads fail at once.
pub fn is_first_to_say() -> bool {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    !IS_SAID.swap(true, Ordering::Relaxed)
}

/// Makes the allocator keep freed pages for later allocations.
///
/// Otherwise the kernel would have to clear each page again. The environment variable
/// `MIMALLOC_PURGE_DELAY` takes precedence.
pub fn keep_freed_pages() {
    set_purge_delay(-1);
}

/// Makes the allocator return freed pages at once, until the returned guard is dropped.
///
/// Memory that only the loading of a model needs is then not kept beside the model. The environment
/// variable `MIMALLOC_PURGE_DELAY` takes precedence.
pub fn return_freed_pages() -> ReturnsPages {
    set_purge_delay(0);
    ReturnsPages
}

/// Guard of [`return_freed_pages`]. Dropping it makes the allocator keep freed pages again.
pub struct ReturnsPages;

impl Drop for ReturnsPages {
    fn drop(&mut self) {
        keep_freed_pages();
    }
}

#[allow(unsafe_code)]
fn set_purge_delay(milliseconds: i64) {
    /// Number of the option `mi_option_purge_delay`. Its value is a delay in milliseconds, and a
    /// negative value means never.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    let delay = milliseconds as std::ffi::c_long;
    // SAFETY: the call only sets a number that the allocator reads.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, delay) };
}

//! How long one input may take, and how much memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Of one input, by this thread's own clock: other work on the machine does not count.
const LONGEST: Duration = Duration::from_secs(1);
/// Of one input, beyond what there was before it.
const LARGEST: usize = 256 << 20;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn grown(by: usize) {
    let now = NOW.fetch_add(by, Relaxed) + by;
    MOST.fetch_max(now, Relaxed);
}

// SAFETY: everything is the system allocator's; only numbers are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

pub fn within(run: impl FnOnce()) {
    let (before, began) = (NOW.load(Relaxed), thread_time());
    MOST.store(before, Relaxed);
    run();
    let took = thread_time().saturating_sub(began);
    assert!(took <= LONGEST, "it took {took:?}");
    let most = MOST.load(Relaxed).saturating_sub(before);
    assert!(most <= LARGEST, "it took {} MiB", most >> 20);
}

fn thread_time() -> Duration {
    // SAFETY: timespec is plain data for which all zeroes is a valid value, and the pointer is good for the call.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now);
        now
    };
    Duration::new(
        now.tv_sec.cast_unsigned(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

//! The future by which a transaction of a lane lets the other lanes of its thread work.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Completes when it is polled for the second time: the other lanes have had their turns then.
#[derive(Default)]
pub(crate) struct Turn {
    is_over: bool,
}

impl Future for Turn {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let turn = self.get_mut();
        if std::mem::replace(&mut turn.is_over, true) {
            return Poll::Ready(());
        }
        // Lanes poll again by themselves; other runtimes need the wake-up.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

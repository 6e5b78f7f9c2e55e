//! Reports problems of the durability of a database to its user: when they begin and once for each,
//! because a statement may meet them much later.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use atoll::Database;

use crate::output::{Style, say};

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(500);

/// How a line is shown to the user.
pub type Teller = Box<dyn FnMut(&str) + Send>;

/// See the module. Looks once more when it is dropped.
pub struct Watch {
    teller: Arc<Mutex<Teller>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches a database from now on.
    pub fn start(database: &Database, style: Style) -> Self {
        let teller: Arc<Mutex<Teller>> = Arc::new(Mutex::new(Box::new(say)));
        let (stop, stopped) = channel::<()>();
        let watching = {
            let (database, teller) = (database.clone(), Arc::clone(&teller));
            move || {
                let mut known = Vec::new();
                loop {
                    let is_last = stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                    let troubles = database.health().troubles();
                    let mut tell = teller.lock().unwrap_or_else(PoisonError::into_inner);
                    for new in troubles.iter().filter(|one| !known.contains(*one)) {
                        tell(&format!("{} {new}", style.warning("warning:")));
                    }
                    known = troubles;
                    if is_last {
                        return;
                    }
                }
            }
        };
        // Without a thread, a commit still reports the problem.
        let thread = std::thread::Builder::new().name("atoll watch".to_owned()).spawn(watching);
        Self { teller, stop: Some(stop), thread: thread.ok() }
    }

    /// Reports in another way from now on.
    pub fn tell_by(&self, teller: Teller) {
        *self.teller.lock().unwrap_or_else(PoisonError::into_inner) = teller;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

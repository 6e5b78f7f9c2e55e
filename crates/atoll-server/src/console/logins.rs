//! Roles that are logged in, and attempts to log in.
//!
//! - `LOGIN-1`: a login is known by a token of 32 random bytes. The browser alone has it; here is
//!   its digest.
//! - `LOGIN-2`: a login ends when it was not used for [`IDLE`], when it is as old as [`AGE`], and
//!   when its role is dropped, may no longer log in, or has another password.
//! - `LOGIN-3`: an address has [`ATTEMPTS`] attempts, and another one each second. Passwords are
//!   checked one after the other, and a wrong one takes [`DELAY`] longer, so that guessing costs
//!   the server no more than one thread.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use crate::auth::{Roles, Verifier, is_password};

const IDLE: Duration = Duration::from_secs(15 * 60);
const AGE: Duration = Duration::from_secs(12 * 3600);
const LOGINS_MAX: usize = 64;
const ATTEMPTS: f64 = 5.0;
const DELAY: Duration = Duration::from_millis(400);
/// Most addresses of which attempts are counted; what more there are, count as one.
const ADDRESSES_MAX: usize = 1024;
const TOKEN_BYTES: usize = 32;

type Digest = [u8; digest::SHA256_OUTPUT_LEN];

/// A login.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) role: String,
    /// What the password was checked against.
    verifier: Option<Verifier>,
    began: Instant,
    used: Mutex<Instant>,
    /// Statements that run: the numbers that the browser gave them, and their clients.
    pub(super) runs: Mutex<HashMap<u64, i32>>,
}

/// Why a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The role, or its password, is another.
    Wrong,
    /// There were too many attempts.
    TooMany,
    /// The system has no randomness for a token.
    NoRandomness,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Logins {
    state: Mutex<State>,
    checking: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    by_digest: HashMap<Digest, Arc<Login>>,
    /// Attempts that are left to an address, and when that was.
    attempts: HashMap<Option<IpAddr>, (f64, Instant)>,
}

impl State {
    /// Takes an attempt of an address; false if it has none left.
    fn attempt(&mut self, address: IpAddr, now: Instant) -> bool {
        let refilled = |left: f64, since: Instant| {
            (left + now.saturating_duration_since(since).as_secs_f64()).min(ATTEMPTS)
        };
        if self.attempts.len() >= ADDRESSES_MAX {
            self.attempts.retain(|_, (left, since)| refilled(*left, *since) < ATTEMPTS);
        }
        let of = Some(network(address));
        let is_full = self.attempts.len() >= ADDRESSES_MAX && !self.attempts.contains_key(&of);
        let entry = self.attempts.entry(if is_full { None } else { of });
        let (left, since) = entry.or_insert((ATTEMPTS, now));
        *left = refilled(*left, *since);
        *since = now;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }

    fn add(&mut self, digest: Digest, login: Login, now: Instant) {
        self.by_digest.retain(|_, login| login.is_valid(now));
        if self.by_digest.len() >= LOGINS_MAX {
            let oldest = self.by_digest.iter().min_by_key(|(_, login)| *lock(&login.used));
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                self.by_digest.remove(&oldest);
            }
        }
        self.by_digest.insert(digest, Arc::new(login));
    }
}

impl Login {
    fn is_valid(&self, now: Instant) -> bool {
        let used = *lock(&self.used);
        now.saturating_duration_since(used) < IDLE
            && now.saturating_duration_since(self.began) < AGE
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Logins {
    /// Logs a role in; the token of the login.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn enter(
        &self,
        roles: &Roles,
        (name, password): (&str, &str),
        address: IpAddr,
    ) -> Result<String, Refused> {
        if !lock(&self.state).attempt(address, Instant::now()) {
            return Err(Refused::TooMany);
        }
        let role = roles.get(name);
        let verifier = role.as_ref().and_then(|role| role.verifier.clone());
        let is_right = {
            let _one = lock(&self.checking);
            is_password(password, name, verifier.as_ref(), roles.secret())
        };
        if !is_right || !role.is_some_and(|role| role.may_login) {
            std::thread::sleep(DELAY);
            return Err(Refused::Wrong);
        }
        let mut token = [0; TOKEN_BYTES];
        SystemRandom::new().fill(&mut token).map_err(|_| Refused::NoRandomness)?;
        let (now, runs) = (Instant::now(), Mutex::default());
        let (role, used) = (name.to_owned(), Mutex::new(now));
        let login = Login { role, verifier, began: now, used, runs };
        lock(&self.state).add(digest_of(&token), login, now);
        Ok(URL_SAFE_NO_PAD.encode(token))
    }

    /// The login of a token, which is used now.
    pub(super) fn find(&self, token: &str, roles: &Roles) -> Option<Arc<Login>> {
        let digest = digest_of_text(token)?;
        let now = Instant::now();
        let login = lock(&self.state).by_digest.get(&digest).cloned()?;
        let role = roles.get(&login.role);
        let is_same = role.is_some_and(|one| one.may_login && one.verifier == login.verifier);
        if !is_same || !login.is_valid(now) {
            lock(&self.state).by_digest.remove(&digest);
            return None;
        }
        *lock(&login.used) = now;
        Some(login)
    }

    /// Ends a login.
    pub(super) fn leave(&self, token: &str) {
        if let Some(digest) = digest_of_text(token) {
            lock(&self.state).by_digest.remove(&digest);
        }
    }
}

/// What counts as one address: of IPv6 the network that a site has.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        four => four,
    }
}

fn digest_of(token: &[u8]) -> Digest {
    let mut bytes = [0; digest::SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, token).as_ref());
    bytes
}

fn digest_of_text(token: &str) -> Option<Digest> {
    let token = URL_SAFE_NO_PAD.decode(token).ok()?;
    (token.len() == TOKEN_BYTES).then(|| digest_of(&token))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::auth::{Role, RoleChange};

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn login(now: Instant) -> Login {
        let (role, used) = ("ann".to_owned(), Mutex::new(now));
        Login { role, verifier: None, began: now, used, runs: Mutex::default() }
    }

    fn roles() -> Roles {
        let roles = Roles::open(None).unwrap();
        let verifier = Verifier::of_password("right").ok();
        roles.create("ann", Role { may_login: true, verifier, is_superuser: false }).unwrap();
        roles
    }

    #[test]
    fn a_login_ends_when_it_is_idle_or_old() {
        let began = Instant::now();
        let one = login(began);
        let second = Duration::from_secs(1);
        assert!(one.is_valid(began + IDLE - second) && !one.is_valid(began + IDLE));
        *one.used.lock().unwrap() = began + AGE - second;
        assert!(one.is_valid(began + AGE - second) && !one.is_valid(began + AGE));
    }

    #[test]
    fn there_are_so_many_logins_and_those_unused_longest_go_first() {
        let (mut state, began) = (State::default(), Instant::now());
        for number in 0..=LOGINS_MAX {
            let now = began + Duration::from_millis(number as u64);
            state.add(digest_of(&[number as u8]), login(now), now);
        }
        assert_eq!(state.by_digest.len(), LOGINS_MAX);
        assert!(!state.by_digest.contains_key(&digest_of(&[0])));
        state.add(digest_of(b"x"), login(began + AGE), began + AGE);
        assert_eq!(state.by_digest.len(), 1);
    }

    #[test]
    fn attempts_of_an_address_are_limited_and_come_back() {
        let (mut state, now) = (State::default(), Instant::now());
        let next = |state: &mut State, address: IpAddr, at| state.attempt(address, at);
        for _ in 0..ATTEMPTS as usize {
            assert!(next(&mut state, HOME, now));
        }
        assert!(!next(&mut state, HOME, now));
        assert!(next(&mut state, [10, 0, 0, 1].into(), now));
        let later = now + Duration::from_secs(1);
        assert!(next(&mut state, HOME, later) && !next(&mut state, HOME, later));
        // Addresses of one network of IPv6 are one, and so are those that there is no room for.
        let of = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        let taken = (0..10).filter(|last| next(&mut state, of(*last), now)).count();
        assert_eq!(taken, ATTEMPTS as usize);
        let many = (0..5000_u32).filter(|number| {
            let address = IpAddr::from((0x0b00_0000 + number).to_be_bytes());
            next(&mut state, address, now)
        });
        assert!(many.count() < ADDRESSES_MAX + ATTEMPTS as usize);
        assert!(state.attempts.len() <= ADDRESSES_MAX + 1);
    }

    #[test]
    fn a_login_holds_as_long_as_its_role_and_password() {
        let (logins, roles) = (Logins::default(), roles());
        let enter = |password| logins.enter(&roles, ("ann", password), HOME);
        assert_eq!(enter("wrong"), Err(Refused::Wrong));
        assert_eq!(logins.enter(&roles, ("ghost", "right"), HOME), Err(Refused::Wrong));
        let token = enter("right").unwrap();
        assert_eq!(logins.find(&token, &roles).unwrap().role, "ann");
        assert!(logins.find("", &roles).is_none() && logins.find("AAAA", &roles).is_none());
        let verifier = Some(Verifier::of_password("new").ok());
        roles.alter("ann", RoleChange { verifier, ..RoleChange::default() }).unwrap();
        assert!(logins.find(&token, &roles).is_none());
        let token = enter("new").unwrap();
        logins.leave(&token);
        assert!(logins.find(&token, &roles).is_none());
        let token = enter("new").unwrap();
        let change = RoleChange { may_login: Some(false), ..RoleChange::default() };
        roles.alter("ann", change).unwrap();
        assert!(logins.find(&token, &roles).is_none());
        assert!(enter("new").is_err());
    }
}

//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the side of the server.
//!
//! `SCRAM-1`: the server keeps a verifier, with which a password can be checked and not be read.
//! `SCRAM-2`: a role that does not exist, or has no password, is answered like one with a wrong
//! password, and takes as many messages.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

use crate::clients::are_equal;

/// The name of the mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// Iterations of a verifier that is made here, as in PostgreSQL.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");
/// Most iterations of a verifier that a client has made.
const ITERATIONS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

type Key = [u8; KEY_BYTES];

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

/// Why an exchange ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScramError {
    /// A message that is none of the mechanism.
    Malformed(&'static str),
    /// The password is another.
    Wrong,
    /// The system has no randomness.
    NoRandomness,
}

fn hmac_of(key: &[u8], data: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn hash_of(data: &[u8]) -> Key {
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    bytes
}

fn random<const N: usize>() -> Result<[u8; N], ScramError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| ScramError::NoRandomness)?;
    Ok(bytes)
}

impl Verifier {
    /// The verifier of a password.
    ///
    /// # Errors
    /// The system has no randomness for the salt.
    pub(crate) fn of_password(password: &str) -> Result<Self, ScramError> {
        Ok(Self::with_salt(password, random::<SALT_BYTES>()?.to_vec(), ITERATIONS))
    }

    fn with_salt(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        // As clients do: a password that has no normal form is taken as it is.
        let normal = stringprep::saslprep(password);
        let password = normal.as_deref().unwrap_or(password);
        let mut salted = [0; KEY_BYTES];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, iterations, &salt, password.as_bytes(), &mut salted);
        let stored_key = hash_of(&hmac_of(&salted, b"Client Key"));
        let server_key = hmac_of(&salted, b"Server Key");
        Self { iterations, salt, stored_key, server_key }
    }

    /// Reads a verifier in the form in which PostgreSQL keeps it.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("SCRAM-SHA-256$")?;
        let (parameters, keys) = rest.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let iterations = iterations.parse().ok().filter(|count| *count <= ITERATIONS_MAX)?;
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        Some(Self {
            iterations: NonZeroU32::new(iterations)?,
            salt: STANDARD.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }

    /// The verifier as PostgreSQL keeps it.
    pub(crate) fn to_text(&self) -> String {
        let encode = |bytes: &[u8]| STANDARD.encode(bytes);
        format!(
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            encode(&self.salt),
            encode(&self.stored_key),
            encode(&self.server_key)
        )
    }

    /// Whether it is that of a password.
    fn is_of(&self, password: &str) -> bool {
        let other = Self::with_salt(password, self.salt.clone(), self.iterations);
        are_equal(&other.stored_key, &self.stored_key)
    }

    /// A verifier that no password has, the same for a name each time.
    fn of_nothing(name: &str, secret: &[u8]) -> Self {
        let salt = hmac_of(secret, name.as_bytes())[..SALT_BYTES].to_vec();
        let (stored_key, server_key) = ([0; KEY_BYTES], [0; KEY_BYTES]);
        Self { iterations: ITERATIONS, salt, stored_key, server_key }
    }
}

/// Whether a password that was sent itself is that of a role. It takes as long for a role that does
/// not exist.
pub(crate) fn is_password(
    password: &str,
    name: &str,
    verifier: Option<&Verifier>,
    secret: &[u8],
) -> bool {
    match verifier {
        Some(verifier) => verifier.is_of(password),
        None => {
            Verifier::of_nothing(name, secret).is_of(password);
            false
        }
    }
}

/// An exchange that has got the first message of the client.
pub(crate) struct Exchange {
    verifier: Verifier,
    /// There is such a role, with a password.
    is_real: bool,
    /// What the client has said of channels, which it repeats.
    header: String,
    nonce: String,
    /// The first messages of both sides, which the proof is about.
    messages: String,
}

impl Exchange {
    /// Takes the first message of a client, and returns the answer.
    ///
    /// # Errors
    /// [`ScramError`].
    pub(crate) fn begin(
        first: &str,
        name: &str,
        verifier: Option<Verifier>,
        secret: &[u8],
    ) -> Result<(Self, String), ScramError> {
        let own = STANDARD.encode(random::<NONCE_BYTES>()?);
        Self::begin_with(first, name, verifier, secret, &own)
    }

    fn begin_with(
        first: &str,
        name: &str,
        verifier: Option<Verifier>,
        secret: &[u8],
        own_nonce: &str,
    ) -> Result<(Self, String), ScramError> {
        let malformed = ScramError::Malformed;
        let (flag, rest) = first.split_once(',').ok_or(malformed("it has no header"))?;
        let (identity, bare) = rest.split_once(',').ok_or(malformed("it has no header"))?;
        match flag {
            "n" | "y" => {}
            _ => return Err(malformed("it binds a channel, which the server does not offer")),
        }
        if !identity.is_empty() {
            return Err(malformed("it has an authorization identity"));
        }
        let mut attributes = bare.split(',');
        // PostgreSQL's clients leave the name out: it is in the startup packet.
        let named = attributes.next().is_some_and(|attribute| attribute.starts_with("n="));
        let nonce = attributes.next().and_then(|attribute| attribute.strip_prefix("r="));
        let nonce = nonce
            .filter(|nonce| !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let (true, Some(nonce)) = (named, nonce) else {
            return Err(malformed("it has no name or no nonce"));
        };
        let is_real = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| Verifier::of_nothing(name, secret));
        let nonce = format!("{nonce}{own_nonce}");
        let salt = STANDARD.encode(&verifier.salt);
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let messages = format!("{bare},{answer}");
        let header = STANDARD.encode(format!("{flag},,"));
        Ok((Self { verifier, is_real, header, nonce, messages }, answer))
    }

    /// Takes the last message of a client, and returns the answer if the client knows the password.
    ///
    /// # Errors
    /// [`ScramError`].
    pub(crate) fn end(&self, last: &str) -> Result<String, ScramError> {
        let malformed = ScramError::Malformed;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or(malformed("it has no proof"))?;
        let mut attributes = without_proof.split(',');
        let header = attributes.next().and_then(|attribute| attribute.strip_prefix("c="));
        let nonce = attributes.next().and_then(|attribute| attribute.strip_prefix("r="));
        if header != Some(self.header.as_str()) {
            return Err(malformed("it repeats another header"));
        }
        if nonce != Some(self.nonce.as_str()) {
            return Err(malformed("it has another nonce"));
        }
        let proof: Key = STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(malformed("its proof has another length"))?;
        let signed = format!("{},{without_proof}", self.messages);
        let signature = hmac_of(&self.verifier.stored_key, signed.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        let is_right = are_equal(&hash_of(&client_key), &self.verifier.stored_key);
        if !is_right || !self.is_real {
            return Err(ScramError::Wrong);
        }
        let server = hmac_of(&self.verifier.server_key, signed.as_bytes());
        Ok(format!("v={}", STANDARD.encode(server)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_is_answered_as_it_says() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with_salt("pencil", salt, ITERATIONS);
        let (exchange, answer) = Exchange::begin_with(
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "user",
            Some(verifier),
            b"",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .unwrap();
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,\
             i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let wanted = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(exchange.end(last), Ok(wanted.to_owned()));
        let wrong = last.replace("p=dH", "p=dX");
        assert_eq!(exchange.end(&wrong), Err(ScramError::Wrong));
        assert!(matches!(
            exchange.end(&last.replace("biws", "eSws")),
            Err(ScramError::Malformed(_))
        ));
    }

    #[test]
    fn a_verifier_is_read_as_it_is_written() {
        let verifier = Verifier::of_password("gehĕim").unwrap();
        assert_eq!(Verifier::of_text(&verifier.to_text()), Some(verifier));
        for text in ["", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:YQ==$YQ==:YQ==", "md5abc"] {
            assert_eq!(Verifier::of_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_password_is_checked_against_its_verifier() {
        let verifier = Verifier::of_password("gehĕim").unwrap();
        assert!(is_password("gehĕim", "ann", Some(&verifier), b""));
        for (password, verifier) in [("geheim", Some(&verifier)), ("", Some(&verifier)), ("", None)]
        {
            assert!(!is_password(password, "ann", verifier, b""), "{password}");
        }
    }

    #[test]
    fn a_role_that_does_not_exist_fails_at_the_end_only() {
        let first = "n,,n=,r=abc";
        let (exchange, answer) = Exchange::begin(first, "ghost", None, b"secret").unwrap();
        let (_, again) = Exchange::begin(first, "ghost", None, b"secret").unwrap();
        let salt = |answer: &str| answer.split(",s=").nth(1).unwrap().to_owned();
        assert_eq!(salt(&answer), salt(&again));
        let last = format!("c=biws,r={},p={}", exchange.nonce, STANDARD.encode([0; 32]));
        assert_eq!(exchange.end(&last), Err(ScramError::Wrong));
        for broken in ["", "n", "n,,", "n,,n=,r=", "p=tls-unique,,n=,r=a", "n,a=x,n=,r=a"] {
            assert!(Exchange::begin(broken, "x", None, b"").is_err(), "{broken}");
        }
    }
}

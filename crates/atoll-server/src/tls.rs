//! The certificate of a server and its key.
//!
//! `TLS-1`: a key that others than its owner may read is refused. As in PostgreSQL, a key of root
//! may be readable for a group.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::auth::own_user;

/// What the protocol is called where TLS begins without a request.
const PROTOCOL: &[u8] = b"postgresql";
/// What browsers call theirs.
const HTTP: &[u8] = b"http/1.1";

/// Where the certificate and the key of a server are.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and those up to the one that clients know, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// Why a server has no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Others may read the key.
    #[error("others than its owner may read the key {path}")]
    Permissions {
        /// The file.
        path: PathBuf,
    },
    /// The key belongs to another user.
    #[error("the key {path} belongs neither to the user of the server nor to root")]
    Owner {
        /// The file.
        path: PathBuf,
    },
    /// A file is no certificate or key.
    #[error("{path} has no {what} in PEM")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// The key is not that of the certificate, or of a kind that is not known.
    #[error("the certificate and the key do not go together: {0}")]
    Mismatch(String),
}

impl TlsError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Permissions { path } => Some(format!("chmod 600 {}", path.display())),
            Self::Owner { path } => Some(format!("chown it to this user: {}", path.display())),
            Self::Pem { .. } => Some("--tls-cert and --tls-key name files in PEM".to_owned()),
            Self::File { .. } | Self::Mismatch(_) => None,
        }
    }
}

/// What makes connections encrypted.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(crate) fn open(files: &TlsFiles) -> Result<Self, TlsError> {
        check_key(&files.key)?;
        let pem = |path: &Path, what| {
            let path = path.to_owned();
            move |_| TlsError::Pem { path, what }
        };
        let read = |path: &Path| {
            fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
        };
        let certificates = CertificateDer::pem_slice_iter(&read(&files.certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(pem(&files.certificate, "certificate"))?;
        if certificates.is_empty() {
            return Err(pem(&files.certificate, "certificate")(
                rustls::pki_types::pem::Error::NoItemsFound,
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
            .map_err(pem(&files.key, "private key"))?;
        let mismatch = |error: rustls::Error| TlsError::Mismatch(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(mismatch)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(mismatch)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// The same certificate for browsers.
    pub(crate) fn for_browsers(&self) -> Self {
        let mut config = (*self.0).clone();
        config.alpn_protocols = vec![HTTP.to_vec()];
        Self(Arc::new(config))
    }

    /// The server's side of an encrypted connection.
    pub(crate) fn connection(&self) -> Option<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.0)).ok()
    }
}

fn check_key(path: &Path) -> Result<(), TlsError> {
    let found =
        fs::metadata(path).map_err(|source| TlsError::File { path: path.to_owned(), source })?;
    let (owner, mode) = (found.uid(), found.mode());
    if owner != own_user() && owner != 0 {
        return Err(TlsError::Owner { path: path.to_owned() });
    }
    let allowed = if owner == 0 && own_user() != 0 { 0o040 } else { 0 };
    if mode & 0o077 & !allowed != 0 {
        return Err(TlsError::Permissions { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "x").unwrap();
        let files = TlsFiles { certificate: folder.path().join("cert"), key: key.clone() };
        for (mode, refused) in [(0o644, true), (0o640, true), (0o600, false)] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            let error = Tls::open(&files).err().unwrap();
            assert_eq!(matches!(error, TlsError::Permissions { .. }), refused, "{error}");
        }
        fs::write(&files.certificate, "nothing").unwrap();
        assert!(matches!(Tls::open(&files), Err(TlsError::Pem { .. })));
    }
}

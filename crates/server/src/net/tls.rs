//! TLS: a certificate from files, which can be replaced while the server runs, or one made at
//! start.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::error::ServeError;
use crate::settings::Settings;

/// The certificate in use.
pub(crate) struct Identity {
    key: ArcSwap<CertifiedKey>,
    files: Option<(PathBuf, PathBuf)>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads, or makes, the certificate that the settings ask for; nothing without TLS.
    ///
    /// # Errors
    /// [`ServeError::Tls`].
    pub fn load(settings: &Settings) -> Result<Option<Arc<Self>>, ServeError> {
        let files = settings.tls_cert.clone().zip(settings.tls_key.clone());
        let key = match &files {
            Some((cert, key)) => read(cert, key)?,
            None if settings.tls_self_signed => self_signed(settings)?,
            None => return Ok(None),
        };
        Ok(Some(Arc::new(Self { key: ArcSwap::from_pointee(key), files })))
    }

    /// Reads the files again; what cannot be used leaves the old certificate in place.
    ///
    /// # Errors
    /// [`ServeError::Tls`].
    pub fn reload(&self) -> Result<(), ServeError> {
        if let Some((cert, key)) = &self.files {
            self.key.store(Arc::new(read(cert, key)?));
        }
        Ok(())
    }

    /// Makes what connections are accepted with.
    ///
    /// # Errors
    /// [`ServeError::Tls`].
    pub fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, ServeError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(tls_error)?;
        let resolver: Arc<dyn ResolvesServerCert> = Arc::new(Current(Arc::clone(self)));
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Gives whatever certificate is in use at a handshake.
#[derive(Debug)]
struct Current(Arc<Identity>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.key.load_full())
    }
}

fn read(cert: &Path, key: &Path) -> Result<CertifiedKey, ServeError> {
    let failed = |path: &Path, why: String| ServeError::Tls(format!("{}: {why}", path.display()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert)
        .map_err(|error| failed(cert, error.to_string()))?
        .collect();
    let chain = chain.map_err(|error| failed(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(failed(cert, "there is no certificate in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| failed(key, e.to_string()))?;
    certified(chain, private)
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, ServeError> {
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(tls_error)
}

fn self_signed(settings: &Settings) -> Result<CertifiedKey, ServeError> {
    let mut names = vec!["localhost".to_owned(), settings.listen.ip().to_string()];
    names.dedup();
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| ServeError::Tls(error.to_string()))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    certified(vec![made.cert.der().clone()], key.into())
}

fn tls_error(error: impl std::fmt::Display) -> ServeError {
    ServeError::Tls(error.to_string())
}

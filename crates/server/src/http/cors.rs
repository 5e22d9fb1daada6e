//! What pages of other origins may do.

use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};

use super::reply::Reply;
use super::{fields, names};
use crate::settings::Settings;

/// Origins that may call.
#[derive(Debug)]
pub(crate) enum Cors {
    /// All of them.
    Any,
    /// Some.
    Listed(Vec<String>),
}

impl Cors {
    /// Takes the settings.
    pub fn new(settings: &Settings) -> Self {
        if settings.cors_origins.iter().any(|origin| origin == "*") {
            Self::Any
        } else {
            Self::Listed(settings.cors_origins.clone())
        }
    }

    /// Adds headers for browsers. What caches may keep has them whoever asks: the next reader of
    /// the same bytes may be a page.
    pub fn add(&self, parts: &Parts, response: &mut Response<Reply>) {
        let origin = fields::first(&parts.headers, &header::ORIGIN);
        let headers = response.headers_mut();
        match self {
            Self::Any if origin.is_none() && parts.method != Method::GET => return,
            Self::Any => {
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, names::ANY);
            }
            Self::Listed(listed) => {
                headers.append(header::VARY, HeaderValue::from_static("origin"));
                let text = origin.and_then(|origin| origin.to_str().ok());
                let allowed = text.filter(|text| listed.iter().any(|known| known == text));
                let Some(origin) = origin.filter(|_| allowed.is_some()) else { return };
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            }
        }
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, names::EXPOSED_HEADERS);
    }
}

/// Answers OPTIONS, asked by a page or by anybody.
pub(crate) fn options(methods: &'static str) -> Response<Reply> {
    let mut response = Response::new(Reply::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names::ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin_of(cors: &Cors, method: Method, origin: Option<&str>) -> Option<String> {
        let mut request = http::Request::builder().method(method);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut response = Response::new(Reply::default());
        cors.add(&parts, &mut response);
        let value = response.headers().get(header::ACCESS_CONTROL_ALLOW_ORIGIN)?;
        Some(value.to_str().unwrap().to_owned())
    }

    #[test]
    fn any_origin_is_a_star_also_on_what_caches_keep() {
        let any = Some("*".to_owned());
        assert_eq!(origin_of(&Cors::Any, Method::GET, None), any);
        assert_eq!(origin_of(&Cors::Any, Method::POST, Some("https://a.org")), any);
        assert_eq!(origin_of(&Cors::Any, Method::POST, None), None, "nobody would look at it");
    }

    #[test]
    fn listed_origins_are_echoed_and_others_get_nothing() {
        let cors = Cors::Listed(vec!["https://a.org".to_owned()]);
        let allowed = origin_of(&cors, Method::GET, Some("https://a.org"));
        assert_eq!(allowed.as_deref(), Some("https://a.org"));
        for other in [None, Some("https://a.org.evil"), Some("null"), Some("*")] {
            assert_eq!(origin_of(&cors, Method::GET, other), None, "{other:?}");
        }
    }
}

//! Why a request about a subscription was turned down: as [`Problem`], with codes of its own.

use crate::error::Problem;
use crate::subscriptions::url_policy::Rejected;

/// Why a request was turned down; nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such subscription.
    #[error("there is no such subscription")]
    NotFound,
    /// One of another configuration has this id.
    #[error("a subscription of this id exists with another configuration")]
    Exists,
    /// The body cannot be used.
    #[error("the request is not usable: {0}")]
    BadRequest(String),
    /// The webhook's URL leads where webhooks are not sent.
    #[error("the webhook URL is refused: {0}")]
    UrlRejected(#[from] Rejected),
    /// No token, or none that was given out.
    #[error("the token is missing or not valid for this subscription")]
    Unauthorized,
    /// The wake is over, or another one has begun.
    #[error("this wake is over")]
    Fenced,
    /// Another worker has the lease.
    #[error("another worker has claimed this wake")]
    AlreadyClaimed {
        /// Who has it.
        holder: String,
        /// The wake's generation.
        generation: u64,
    },
    /// There is nothing to claim.
    #[error("nothing is pending")]
    NothingPending,
    /// The subscription is delivered in another way.
    #[error("this subscription is not a {0} subscription")]
    WrongType(&'static str),
    /// What the streams or the log give.
    #[error(transparent)]
    Streams(#[from] Problem),
}

impl Refusal {
    /// Gives the code that machines tell refusals apart by.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "SUBSCRIPTION_NOT_FOUND",
            Self::Exists => "SUBSCRIPTION_EXISTS",
            Self::BadRequest(_) => "INVALID_REQUEST",
            Self::UrlRejected(_) => "WEBHOOK_URL_REJECTED",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Fenced => "FENCED",
            Self::AlreadyClaimed { .. } => "ALREADY_CLAIMED",
            Self::NothingPending => "NOTHING_PENDING",
            Self::WrongType(_) => "WRONG_SUBSCRIPTION_TYPE",
            Self::Streams(problem) => problem.code(),
        }
    }

    /// Says what whoever asked can do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NotFound => "Create the subscription with PUT, or check its id.",
            Self::Exists => "Use another id, or delete the subscription first.",
            Self::BadRequest(_) => "Correct the body and send again.",
            Self::UrlRejected(_) => "Use an https URL of a public host.",
            Self::Unauthorized => "Send the wake's token as Authorization: Bearer.",
            Self::Fenced => "Stop working on this wake: what is left of it is in a later one.",
            Self::AlreadyClaimed { .. } => "Wait for the next wake event.",
            Self::NothingPending => "Claim when a wake event has come.",
            Self::WrongType(_) => "Use the operations of this subscription's type.",
            Self::Streams(problem) => problem.advice(),
        }
    }
}

//! Objects that are created, answered and never stored: reviews and tokens. Reads one within the request's time, and answers with what became of it.

use axum::{body::Body, extract::Request, response::Response};
use http::StatusCode;
use serde_json::Value;
use server::budget::Reservation;
use tokio::time::timeout_at;

use super::{
    accept::Asked,
    api::Api,
    content_type,
    context::Authorized,
    incoming::whole_body,
    piece_body::PieceBody,
    respond::{Reply, sent, warn},
    rules_review::{OTHER_FORMS_BYTES_MAX, RulesReview},
    status::Status,
};
use auth::authz::Rules;
use codec::{Media, stored};
use storage::write::{
    failure::{StatusSubject, WriteError},
    options::{Verb as Options, WriteOptions},
};
use telemetry::RequestTimer;

/// An object that is to be answered.
pub(super) struct Created {
    reply: Reply,
    /// What the client is warned of.
    pub(super) warnings: Vec<String>,
    /// Counts the object. Others may have to be asked, who take their time.
    _counted: Vec<Reservation>,
    /// What is answered in pieces, in place of an object.
    pieces: Option<RulesReview>,
    /// How it is to be created.
    options: WriteOptions,
}

impl Created {
    /// An answer in the form that the client accepts, if it accepts any.
    pub(super) fn new(context: &Authorized) -> Self {
        Self { reply: context.reply.clone(), warnings: Vec::new(), _counted: Vec::new(), pieces: None, options: WriteOptions::default() }
    }

    /// Reads the object, of this group, version and kind, from the body of its request. None: the time is over.
    ///
    /// # Errors
    /// What is wrong with the request.
    pub(super) async fn read(
        &mut self,
        api: &Api,
        context: &Authorized,
        kind: (&str, &str, &str),
        request: Request,
    ) -> Result<Option<Value>, Status> {
        self.reply.negotiate(Asked::RoutedDocument)?;
        let syntax = content_type::syntax(request.headers(), true)?;
        let options = WriteOptions::parse(&context.line.query, Options::Create)
            .map_err(|errors| Status::from(WriteError::Invalid { of: StatusSubject::options(Options::Create.options_kind()), errors }))?;
        let Some(body) = whole_body(request.into_body(), &context.conn, context.until).await? else { return Ok(None) };
        let object = api.writer.decode(kind, &options, syntax, &body, &mut self.warnings).await.map_err(Status::from)?;
        self._counted = body.read_out();
        self.options = options;
        if let Some(record) = self.reply.record() {
            record.requested(&object, |object| stored::render(false, object));
        }
        Ok(Some(object))
    }

    /// Returns how the object is to be created, once it was read.
    pub(super) const fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// Answers a review of many rules: in pieces where the form allows it.
    ///
    /// # Errors
    /// They are too many for the form that is asked for.
    pub(super) fn rules(&mut self, object: Value, rules: Rules) -> Result<Value, Status> {
        if self.reply.is_compact() && self.reply.media() == Media::Json {
            self.pieces = RulesReview::new(object.clone(), rules.clone());
            if self.pieces.is_some() {
                return Ok(Value::Null);
            }
        }
        if rules.bytes_up_to(OTHER_FORMS_BYTES_MAX) > OTHER_FORMS_BYTES_MAX {
            let why = format!("the rules have more than {OTHER_FORMS_BYTES_MAX} bytes, which are only answered as compact JSON");
            return Err(Status::too_large(&why));
        }
        let mut object = object;
        object["status"] = serde_json::to_value(rules).unwrap_or_default();
        Ok(object)
    }

    /// Returns the answer: the object as `work` has made it. None: the time is over.
    pub(super) async fn answer(
        mut self,
        context: &Authorized,
        mut timer: RequestTimer,
        work: impl AsyncFnOnce(&mut Self) -> Result<Option<Value>, Status>,
    ) -> Response {
        let answered = timeout_at(context.until, work(&mut self)).await.unwrap_or(Ok(None));
        let response = match answered {
            Ok(Some(_)) if let Some(pieces) = self.pieces.take() => {
                let hold = context.conn.unread.add(0);
                let body = PieceBody::new(Vec::new(), pieces, hold, timer, StatusCode::CREATED.as_u16());
                let mut response = self.reply.stream(Media::Json.content_type(), Body::new(body));
                *response.status_mut() = StatusCode::CREATED;
                warn(response.headers_mut(), &self.warnings);
                return response;
            }
            Ok(Some(answer)) => self.reply.object(StatusCode::CREATED, stored::render(false, &answer)),
            Ok(None) => {
                timer.terminated(504);
                return context.timed_out();
            }
            Err(status) => self.reply.status(&status),
        };
        let mut response = sent(response, timer);
        warn(response.headers_mut(), &self.warnings);
        response
    }
}

//! Functions of URLs.

use super::{
    args::{Rows, opaque, text},
    costs,
};
use crate::{
    functions::{Function, Work},
    library::url::Url,
    types::Type,
    value::{Error, MapBuilder, Opaque, Outcome, Value},
};

const NAME: &str = "kubernetes.URL";

impl Opaque for Url {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.get::<Self>().is_some_and(|other| self == other)
    }
}

pub(super) fn functions() -> Rows {
    let url = || Type::object(NAME);
    let values = Type::map(Type::String, Type::list(Type::String));
    let mut rows = vec![
        Function::new("url")
            .global("string_to_url", [Type::String], url(), |_, args| Url::parse(text(args, 0)?).map(Value::opaque).map_err(Error::new))
            .costs(costs::followed, costs::same_size_estimate),
        // Kubernetes counts nothing of its own for it.
        Function::new("isURL").global("is_url_string", [Type::String], Type::Bool, |_, args| Ok(Value::Bool(Url::is(text(args, 0)?)))),
    ];
    let parts = [
        Function::new("getScheme").member("url_get_scheme", [url()], Type::String, |_, args| Ok(Value::string(of(args)?.scheme()))),
        Function::new("getHost").member("url_get_host", [url()], Type::String, |_, args| Ok(Value::string(of(args)?.host()))),
        Function::new("getHostname").member("url_get_hostname", [url()], Type::String, |_, args| Ok(Value::string(of(args)?.hostname()))),
        Function::new("getPort").member("url_get_port", [url()], Type::String, |_, args| Ok(Value::string(of(args)?.port()))),
        Function::new("getEscapedPath")
            .member("url_get_escaped_path", [url()], Type::String, |_, args| Ok(Value::string(of(args)?.escaped_path()))),
        Function::new("getQuery").member("url_get_query", [url()], values, query),
    ];
    rows.extend(parts.map(|function| function.costs(costs::one, costs::one_estimate)));
    rows
}

fn of<'a>(args: &'a [Value<'_>]) -> Result<&'a Url, Error> {
    opaque(args, 0)
}

fn query<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let mut map = MapBuilder::default();
    for (name, values) in of(args)?.query() {
        map.insert(Value::string(name), Value::list(values.into_iter().map(Value::string).collect()))?;
    }
    Ok(map.build())
}

//! Functions of IP addresses and networks.

use super::{
    args::{Rows, opaque, text},
    costs,
};
use crate::{
    functions::{Function, Work},
    library::address::{Cidr, Ip},
    sizes::{Call, CallCost, Range, TEXT_FACTOR, scaled},
    types::Type,
    value::{Error, Opaque, Outcome, Value},
};

const IP: &str = "net.IP";
const CIDR: &str = "net.CIDR";

impl Opaque for Ip {
    fn type_name(&self) -> &str {
        IP
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.get::<Self>().is_some_and(|other| self == other)
    }

    fn size(&self) -> Option<u64> {
        Some((*self).size() as u64)
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &str {
        CIDR
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.get::<Self>().is_some_and(|other| self == other)
    }

    fn size(&self) -> Option<u64> {
        Some((*self).size() as u64)
    }
}

pub(super) fn functions() -> Rows {
    let (ip, cidr) = (|| Type::opaque(IP), || Type::opaque(CIDR));
    let read = |function: Function| function.costs(costs::followed, costs::followed_estimate);
    let mut rows = vec![
        Function::new("ip")
            .global("string_to_ip", [Type::String], ip(), |_, args| made(Ip::parse(text(args, 0)?)))
            .member("cidr_ip", [cidr()], ip(), |_, args| Ok(Value::opaque(network(args, 0)?.ip())))
            .costs(ip_cost, ip_estimate),
        Function::new("ip.isCanonical")
            .global("ip_is_canonical", [Type::String], Type::Bool, |_, args| {
                Ip::is_canonical(text(args, 0)?).map(Value::Bool).map_err(Error::new)
            })
            .costs(costs::followed_twice, costs::followed_twice_estimate),
        read(
            Function::new("isIP").global("is_ip", [Type::String], Type::Bool, |_, args| Ok(Value::Bool(Ip::parse(text(args, 0)?).is_ok()))),
        ),
        read(Function::new("cidr").global("string_to_cidr", [Type::String], cidr(), |_, args| made(Cidr::parse(text(args, 0)?)))),
        read(
            Function::new("isCIDR")
                .global("is_cidr", [Type::String], Type::Bool, |_, args| Ok(Value::Bool(Cidr::parse(text(args, 0)?).is_ok()))),
        ),
        Function::new("string")
            .global("ip_to_string", [ip()], Type::String, |_, args| Ok(Value::string(address(args, 0)?.to_string())))
            .global("cidr_to_string", [cidr()], Type::String, |_, args| Ok(Value::string(network(args, 0)?.to_string()))),
        Function::new("containsIP")
            .member("cidr_contains_ip_string", [cidr(), Type::String], Type::Bool, contains_ip_text)
            .member("cidr_contains_ip_ip", [cidr(), ip()], Type::Bool, |_, args| {
                Ok(Value::Bool(network(args, 0)?.contains_ip(*address(args, 1)?)))
            })
            .costs(contains_ip_cost, contains_ip_estimate),
        Function::new("containsCIDR")
            .member("cidr_contains_cidr_string", [cidr(), Type::String], Type::Bool, |_, args| {
                Ok(Value::Bool(network(args, 0)?.contains(Cidr::parse(text(args, 1)?).map_err(Error::new)?)))
            })
            .member("cidr_contains_cidr", [cidr(), cidr()], Type::Bool, |_, args| {
                Ok(Value::Bool(network(args, 0)?.contains(*network(args, 1)?)))
            })
            .costs(contains_cidr_cost, contains_cidr_estimate),
    ];
    rows.extend(parts().map(|function| function.costs(costs::one, costs::one_estimate)));
    rows
}

/// Functions that look at one address or network.
fn parts() -> impl Iterator<Item = Function> {
    let (ip, cidr) = (|| [Type::opaque(IP)], || [Type::opaque(CIDR)]);
    [
        Function::new("family").member("ip_family", ip(), Type::Int, |_, args| Ok(Value::Int(address(args, 0)?.family()))),
        Function::new("isUnspecified")
            .member("ip_is_unspecified", ip(), Type::Bool, |_, args| Ok(Value::Bool(address(args, 0)?.is_unspecified()))),
        Function::new("isLoopback").member("ip_is_loopback", ip(), Type::Bool, |_, args| Ok(Value::Bool(address(args, 0)?.is_loopback()))),
        Function::new("isLinkLocalMulticast")
            .member("ip_is_link_local_multicast", ip(), Type::Bool, |_, args| Ok(Value::Bool(address(args, 0)?.is_link_local_multicast()))),
        Function::new("isLinkLocalUnicast")
            .member("ip_is_link_local_unicast", ip(), Type::Bool, |_, args| Ok(Value::Bool(address(args, 0)?.is_link_local_unicast()))),
        Function::new("isGlobalUnicast")
            .member("ip_is_global_unicast", ip(), Type::Bool, |_, args| Ok(Value::Bool(address(args, 0)?.is_global_unicast()))),
        Function::new("prefixLength")
            .member("cidr_prefix_length", cidr(), Type::Int, |_, args| Ok(Value::Int(network(args, 0)?.prefix_length()))),
        Function::new("masked").member("cidr_masked", cidr(), Type::opaque(CIDR), |_, args| Ok(Value::opaque(network(args, 0)?.masked()))),
    ]
    .into_iter()
}

fn address<'a>(args: &'a [Value<'_>], at: usize) -> Result<&'a Ip, Error> {
    opaque(args, at)
}

fn network<'a>(args: &'a [Value<'_>], at: usize) -> Result<&'a Cidr, Error> {
    opaque(args, at)
}

fn made<'v>(value: Result<impl Opaque, String>) -> Outcome<'v> {
    value.map(Value::opaque).map_err(Error::new)
}

/// What is wrong with the text is not said.
fn contains_ip_text<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let ip = Ip::parse(text(args, 1)?).map_err(|_| Error::no_such_overload())?;
    Ok(Value::Bool(network(args, 0)?.contains_ip(ip)))
}

fn ip_cost(overload: &str, args: &[Value<'_>], result: &Outcome<'_>) -> Option<u64> {
    if overload == "cidr_ip" { Some(1) } else { costs::followed(overload, args, result) }
}

fn ip_estimate(call: &Call<'_>) -> Option<CallCost> {
    if call.overload == "cidr_ip" { costs::one_estimate(call) } else { costs::followed_estimate(call) }
}

fn contains_ip_cost(overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    let size = costs::size(args, 0);
    let text = if overload == "cidr_contains_ip_string" { scaled(costs::size(args, 1), TEXT_FACTOR) } else { 0 };
    Some(scaled(2 * size, TEXT_FACTOR) + text)
}

fn contains_cidr_cost(overload: &str, args: &[Value<'_>], _result: &Outcome<'_>) -> Option<u64> {
    let size = costs::size(args, 0);
    let text = if overload == "cidr_contains_cidr_string" { scaled(costs::size(args, 1), TEXT_FACTOR) } else { 0 };
    Some(scaled(2 * size, TEXT_FACTOR) + scaled(size, TEXT_FACTOR) + 1 + text)
}

/// The bytes of an address.
const BYTES: Range = Range { min: 4, max: 16 };

fn contains_ip_estimate(call: &Call<'_>) -> Option<CallCost> {
    let text = call.size(call.args.first()?).scaled(TEXT_FACTOR);
    let compared = BYTES.plus(BYTES).scaled(TEXT_FACTOR);
    Some(CallCost::of(if call.overload == "cidr_contains_ip_string" { compared.plus(text) } else { compared }))
}

fn contains_cidr_estimate(call: &Call<'_>) -> Option<CallCost> {
    let text = call.size(call.args.first()?).scaled(TEXT_FACTOR);
    let compared = BYTES.plus(BYTES).scaled(TEXT_FACTOR).plus(BYTES.scaled(TEXT_FACTOR)).plus(Range::fixed(1));
    Some(CallCost::of(if call.overload == "cidr_contains_cidr_string" { compared.plus(text) } else { compared }))
}

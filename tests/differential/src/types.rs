//! The types of the built-in kinds, read from the text file that the server has of them.

use std::collections::{BTreeSet, HashMap};

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    String,
    Int32,
    Int64,
    Number,
    Boolean,
    Bytes,
    IntOrString,
    Quantity,
    Time,
    MicroTime,
    Any,
    Array(Box<Shape>),
    Map(Box<Shape>),
    Struct(String),
}

/// One field of a type.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    /// The member by which a strategic merge patch tells the elements of a list apart.
    pub(crate) merge_key: Option<String>,
}

/// Every type, by name, and the names of the kinds' types.
pub(crate) struct Types {
    structs: HashMap<String, Vec<Field>>,
    kinds: HashMap<String, String>,
}

impl Types {
    /// Reads the form that the head of the file tells.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let opaque: HashMap<&str, &str> = lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_once(" = ")).collect();
        let (mut structs, mut kinds, mut name) = (HashMap::<String, Vec<Field>>::new(), HashMap::new(), String::new());
        for line in lines().filter(|line| !line.contains(" = ")) {
            if let Some(field) = line.strip_prefix(' ') {
                structs.entry(name.clone()).or_default().push(parse_field(field, &opaque));
                continue;
            }
            let mut words = line.split(' ');
            name = words.next().unwrap_or_default().to_owned();
            structs.entry(name.clone()).or_default();
            kinds.extend(words.filter(|word| word.contains('/')).map(|kind| (kind.to_owned(), name.clone())));
        }
        Self { structs, kinds }
    }

    /// The type of a kind, which is named `apps/v1/Deployment` or `v1/Pod`.
    pub(crate) fn of_kind(&self, kind: &str) -> Option<&str> {
        self.kinds.get(kind).map(String::as_str)
    }

    /// How many fields the types below this one have.
    pub(crate) fn count_below(&self, name: &str) -> usize {
        let (mut known, mut ahead) = (BTreeSet::from([name.to_owned()]), vec![name.to_owned()]);
        while let Some(name) = ahead.pop() {
            for field in self.fields(&name) {
                let mut shape = &field.shape;
                while let Shape::Array(of) | Shape::Map(of) = shape {
                    shape = of;
                }
                if let Shape::Struct(inner) = shape
                    && known.insert(inner.clone())
                {
                    ahead.push(inner.clone());
                }
            }
        }
        known.iter().map(|name| self.fields(name).len()).sum()
    }

    pub(crate) fn fields(&self, name: &str) -> &[Field] {
        self.structs.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn field(&self, name: &str, field: &str) -> Option<&Field> {
        self.fields(name).iter().find(|it| it.name == field)
    }
}

fn parse_field(line: &str, opaque: &HashMap<&str, &str>) -> Field {
    let mut words = line.split(' ');
    let (name, shape) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (name, required) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
    let merge_key = words.find_map(|word| word.strip_prefix("key=")).map(str::to_owned);
    Field { name: name.to_owned(), shape: parse_shape(shape, opaque), required, merge_key }
}

fn parse_shape(word: &str, opaque: &HashMap<&str, &str>) -> Shape {
    if let Some(of) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
        return Shape::Array(Box::new(parse_shape(of, opaque)));
    }
    if let Some(of) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        return Shape::Map(Box::new(parse_shape(of, opaque)));
    }
    match opaque.get(word).copied().unwrap_or(word) {
        "string" => Shape::String,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "number" => Shape::Number,
        "boolean" => Shape::Boolean,
        "bytes" => Shape::Bytes,
        "int-or-string" => Shape::IntOrString,
        "quantity" => Shape::Quantity,
        "time" => Shape::Time,
        "micro-time" => Shape::MicroTime,
        "any" => Shape::Any,
        name => Shape::Struct(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read() {
        let types = Types::parse("# head\nq = quantity\na.B v1/B\n c! [a.C] patch=merge key=name\na.C\n name string\n q {q}\n");
        let name = types.of_kind("v1/B").expect("a kind");
        let field = &types.fields(name)[0];
        assert_eq!((field.required, field.merge_key.as_deref()), (true, Some("name")));
        assert_eq!(field.shape, Shape::Array(Box::new(Shape::Struct("a.C".to_owned()))));
        assert_eq!(types.count_below("a.B"), 3);
        assert_eq!(types.field("a.C", "q").map(|field| &field.shape), Some(&Shape::Map(Box::new(Shape::Quantity))));
    }
}

//! Makes a schema of definitions: references are found, fields sorted, keys given their defaults.

use std::{collections::HashMap, sync::Arc};

use super::{Atom, DEDUCED, ElementRelationship, Field, Key, KeyDefault, List, Map, Scalar, Schema, TypeRef, definition};
use crate::path::PathElement;

impl Schema {
    /// Makes a schema. Of types with the same name the last one counts.
    #[must_use]
    pub fn new(types: Vec<definition::TypeDef>) -> Self {
        let mut compiler = Compiler::default();
        compiler.atoms.push(Atom::default());
        for definition::TypeDef { name, .. } in &types {
            if !compiler.names.contains_key(&**name) {
                let of = compiler.reserve();
                compiler.names.insert(name.as_str().into(), of);
            }
        }
        for definition::TypeDef { name, atom } in types {
            let of = compiler.names[&*name];
            let atom = compiler.atom(atom, Some(name.into()));
            compiler.atoms[of.0 as usize] = atom;
        }
        // What says otherwise how elements belong together needs the types that it refers to.
        for (of, named, relationship) in std::mem::take(&mut compiler.overrides) {
            compiler.atoms[of.0 as usize] = overridden(&compiler.atoms[named.0 as usize], relationship);
        }
        compiler.default_keys();
        Self { atoms: compiler.atoms, names: compiler.names }
    }
}

#[derive(Default)]
struct Compiler {
    atoms: Vec<Atom>,
    names: HashMap<Box<str>, TypeRef>,
    missing: HashMap<Box<str>, TypeRef>,
    /// Those without a name that are scalars only.
    scalars: Vec<(Scalar, TypeRef)>,
    /// Made once for each type and relationship.
    overriding: HashMap<(u32, ElementRelationship), TypeRef>,
    /// The type to be made, the one that it is made of, and what it says otherwise.
    overrides: Vec<(TypeRef, TypeRef, ElementRelationship)>,
}

impl Compiler {
    fn reserve(&mut self) -> TypeRef {
        self.atoms.push(Atom::default());
        TypeRef(u32::try_from(self.atoms.len() - 1).expect("a schema's text is far smaller"))
    }

    fn reference(&mut self, reference: definition::TypeRef) -> TypeRef {
        if reference.is_empty() {
            return TypeRef::NONE;
        }
        let of = match reference.named {
            Some(name) => match self.names.get(&*name) {
                Some(of) => *of,
                None => self.missing(&name),
            },
            None => self.inlined(reference.inlined),
        };
        let Some(relationship) = reference.relationship else { return of };
        if let Some(made) = self.overriding.get(&(of.0, relationship)) {
            return *made;
        }
        let made = self.reserve();
        self.overrides.push((made, of, relationship));
        self.overriding.insert((of.0, relationship), made);
        made
    }

    /// A type without a name. Scalars are the same wherever they are.
    fn inlined(&mut self, atom: definition::Atom) -> TypeRef {
        let scalar = atom.scalar.filter(|_| atom.list.is_none() && atom.map.is_none());
        if let Some((_, of)) = self.scalars.iter().find(|(known, _)| Some(*known) == scalar) {
            return *of;
        }
        let of = self.reserve();
        let atom = self.atom(atom, None);
        self.atoms[of.0 as usize] = atom;
        self.scalars.extend(scalar.map(|scalar| (scalar, of)));
        of
    }

    fn missing(&mut self, name: &str) -> TypeRef {
        if let Some(of) = self.missing.get(name) {
            return *of;
        }
        let of = self.reserve();
        self.atoms[of.0 as usize] = Atom { name: Some(name.into()), is_missing: true, ..Atom::default() };
        self.missing.insert(name.into(), of);
        of
    }

    fn atom(&mut self, atom: definition::Atom, name: Option<Box<str>>) -> Atom {
        Atom {
            name,
            is_missing: false,
            scalar: atom.scalar,
            list: atom.list.map(|list| {
                Arc::new(List {
                    element_type: self.reference(list.element_type),
                    relationship: list.relationship,
                    keys: list.keys.into_iter().map(|name| Key { name: name.into(), default: KeyDefault::None }).collect(),
                })
            }),
            map: atom.map.map(|map| self.map(*map)),
        }
    }

    fn map(&mut self, map: definition::Map) -> Arc<Map> {
        let is_deduced = map.fields.is_empty()
            && match &map.element_type {
                definition::TypeRef { named: Some(name), .. } => name == DEDUCED,
                definition::TypeRef { inlined, .. } => inlined.scalar == Some(Scalar::Untyped),
            };
        let mut fields = Vec::with_capacity(map.fields.len());
        for field in map.fields {
            fields.push(Field {
                element: PathElement::field(&field.name),
                name: field.name.into(),
                element_type: self.reference(field.of),
                default: field.default.filter(|default| !default.is_null()).map(Box::new),
            });
        }
        // Of fields with the same name the last one counts.
        fields.reverse();
        fields.sort_by(|lhs, rhs| lhs.name.cmp(&rhs.name));
        fields.dedup_by(|lhs, rhs| lhs.name == rhs.name);
        let element_type = self.reference(map.element_type);
        Arc::new(Map { fields, element_type, relationship: map.relationship, is_deduced })
    }

    /// Gives the keys of associative lists the defaults of the fields that they name.
    fn default_keys(&mut self) {
        for at in 0..self.atoms.len() {
            let Some(list) = self.atoms[at].list.as_ref().filter(|list| !list.keys.is_empty()) else { continue };
            let item = &self.atoms[list.element_type.0 as usize];
            let defaults: Vec<KeyDefault> = list
                .keys
                .iter()
                .map(|key| match &item.map {
                    _ if item.is_missing => KeyDefault::Wrong("invalid elementType for list"),
                    None => KeyDefault::Wrong("associative list may not have non-map types"),
                    Some(map) => {
                        let default = map.field(key.name.as_bytes()).and_then(|field| field.default.as_deref());
                        default.map_or(KeyDefault::None, |default| KeyDefault::Value(default.clone()))
                    }
                })
                .collect();
            let mut list = (**list).clone();
            list.keys.iter_mut().zip(defaults).for_each(|(key, default)| key.default = default);
            self.atoms[at].list = Some(Arc::new(list));
        }
    }
}

/// A type whose elements belong together in another way: its map, or else its list.
fn overridden(atom: &Atom, relationship: ElementRelationship) -> Atom {
    let mut atom = atom.clone();
    match (&mut atom.map, &mut atom.list) {
        (Some(map), _) => *map = Arc::new(Map { relationship: Some(relationship), ..(**map).clone() }),
        (None, Some(list)) => *list = Arc::new(List { relationship: Some(relationship), ..(**list).clone() }),
        (None, None) => atom.is_missing = true,
    }
    atom
}

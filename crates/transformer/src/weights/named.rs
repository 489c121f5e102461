//! Visitors and mappers that receive the name of each floating-point parameter of a module.
//!
//! The name is the path of the parameter in the module, such as `decoder.final_norm.gamma`.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// A visitor of a module's parameters and their names.
pub trait VisitNamed {
    /// Visits one parameter.
    fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>);
}

/// A mapper that replaces a module's parameters, given their names.
pub trait MapNamed {
    /// Returns the new value of one parameter.
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>>;
}

/// Visits all floating-point parameters of a module, in the order of its fields.
pub fn visit_named<M: Module>(module: &M, visitor: &mut impl VisitNamed) {
    let path = Vec::new();
    module.visit(&mut Named {
        inner: visitor,
        path,
    });
}

/// Replaces all floating-point parameters of a module, in the order of its fields.
pub fn map_named<M: Module>(module: M, mapper: &mut impl MapNamed) -> M {
    let path = Vec::new();
    module.map(&mut Named {
        inner: mapper,
        path,
    })
}

/// Keeps the path of the current parameter, and passes it to a visitor or mapper.
struct Named<'a, T> {
    inner: &'a mut T,
    path: Vec<String>,
}

impl<T: VisitNamed> ModuleVisitor for Named<'_, T> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.inner.visit(self.path.join("."), param);
    }
}

impl<T: MapNamed> ModuleMapper for Named<'_, T> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.inner.map(self.path.join("."), param)
    }
}

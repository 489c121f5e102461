//! A module's parameters, each with its name: the path to it, as in `decoder.layers.0.norm_1.gamma`.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// What is done at each parameter of a module.
pub trait VisitNamed {
    /// Looks at one parameter.
    fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>);
}

/// What each parameter of a module is replaced by.
pub trait MapNamed {
    /// Replaces one parameter.
    fn map<const D: usize>(&mut self, name: String, param: Param<Tensor<D>>) -> Param<Tensor<D>>;
}

/// Visits all parameters, in the module's order.
pub fn visit_named<M: Module>(module: &M, visitor: &mut impl VisitNamed) {
    let path = Vec::new();
    module.visit(&mut Named {
        inner: visitor,
        path,
    });
}

/// Replaces all parameters, in the module's order.
pub fn map_named<M: Module>(module: M, mapper: &mut impl MapNamed) -> M {
    let path = Vec::new();
    module.map(&mut Named {
        inner: mapper,
        path,
    })
}

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

# SPDX-License-Identifier: Apache-2.0
"""Builds reference models on the meta device and records what each constructor made of its arguments and its config.

Numbers that enter a constructor carry an expression through arithmetic, so that a Linear's in_features comes out as "hidden_size // 2" and not as 32.
An expression is relative to the constructor (a "frame") it was used in: names are arguments of that constructor or fields of its config.
"""
import builtins
import copy
import functools
import inspect
import math
import numbers
import re
import sys

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

LEAF = re.compile(r"^(C\d+_|A\d+_|R-?\d+$)")


# --- numbers with an expression -----------------------------------------------------------------------------------------------------------------


def expression_of(value):
    if isinstance(value, (TInt, TFloat, TList, TDict)):
        return value.e
    if isinstance(value, tuple) and any(isinstance(v, (TInt, TFloat)) for v in value):
        return "[" + ", ".join(expression_of(v) for v in value) + "]"
    if type(value) is list and any(isinstance(v, (TInt, TFloat)) for v in value):
        return "[" + ", ".join(expression_of(v) for v in value) + "]"
    return repr(plain(value))


def plain(value):
    """The value without its expression, and without anything that is not a fact about shapes."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k) if not isinstance(k, int) else int(k): plain(v) for k, v in value.items()}
    if inspect.isclass(value):
        return value.__name__
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if callable(value) and not isinstance(value, nn.Module):
        return getattr(value, "__name__", type(value).__name__)
    return f"<{type(value).__name__}>"


def number(value, e):
    if isinstance(value, bool) or value is NotImplemented:
        return value
    if len(e) > 400:
        return value
    if isinstance(value, int):
        made = TInt(value, e)
    elif isinstance(value, float):
        return TFloat(value, e)
    else:
        return value
    if Frame.current is not None:
        Frame.current.pool.append((int(value), e))
    return made


def _binary(symbol, operation):
    def forward(self, other):
        if isinstance(other, torch.Tensor) or not isinstance(other, (int, float)):
            return NotImplemented
        result = operation(self.plain(), plain(other))
        return number(result, f"({self.e} {symbol} {expression_of(other)})")

    def backward(self, other):
        if isinstance(other, torch.Tensor) or not isinstance(other, (int, float)):
            return NotImplemented
        return number(operation(plain(other), self.plain()), f"({expression_of(other)} {symbol} {self.e})")

    return forward, backward


def _compare(symbol, operation):
    def compare(self, other):
        if not isinstance(other, (int, float)):
            return operation(self.plain(), other) if not isinstance(other, torch.Tensor) else NotImplemented
        if Frame.current is not None:
            Frame.current.conditions.add(f"({self.e} {symbol} {expression_of(other)})")
        return operation(self.plain(), plain(other))

    return compare


class _Number:
    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return (type(self.plain()), (self.plain(),))


def _arm(cls):
    import operator

    for name, symbol, operation in (
        ("add", "+", operator.add), ("sub", "-", operator.sub), ("mul", "*", operator.mul), ("floordiv", "//", operator.floordiv),
        ("mod", "%", operator.mod), ("truediv", "/", operator.truediv), ("pow", "**", operator.pow),
    ):
        forward, backward = _binary(symbol, operation)
        setattr(cls, f"__{name}__", forward)
        setattr(cls, f"__r{name}__", backward)
    for name, symbol, operation in (("lt", "<", operator.lt), ("le", "<=", operator.le), ("gt", ">", operator.gt), ("ge", ">=", operator.ge),
                                    ("eq", "==", operator.eq), ("ne", "!=", operator.ne)):
        setattr(cls, f"__{name}__", _compare(symbol, operation))
    cls.__neg__ = lambda self: number(-self.plain(), f"(-{self.e})")
    cls.__floor__ = lambda self: number(math.floor(self.plain()), f"floor({self.e})")
    cls.__ceil__ = lambda self: number(math.ceil(self.plain()), f"ceil({self.e})")
    cls.__abs__ = lambda self: number(abs(self.plain()), f"abs({self.e})")
    return cls


class TInt(_Number, int):
    def __new__(cls, value, e):
        made = int.__new__(cls, value)
        made.e = e
        return made

    def plain(self):
        return int.__int__(self)

    __hash__ = int.__hash__

    def __round__(self, digits=None):
        return self


class TFloat(_Number, float):
    def __new__(cls, value, e):
        made = float.__new__(cls, value)
        made.e = e
        return made

    def plain(self):
        return float.__float__(self)

    __hash__ = float.__hash__

    def __round__(self, digits=None):
        return number(round(self.plain()), f"round({self.e})") if digits is None else round(self.plain(), digits)


_arm(TInt)
_arm(TFloat)


class TList(list):
    e = None

    def __getitem__(self, index):
        value = list.__getitem__(self, index)
        if isinstance(index, slice) and self.e:
            parts = [expression_of(p) if p is not None else "" for p in (index.start, index.stop)]
            if index.step is None:
                sliced = TList(value)
                sliced.e = f"{self.e}[{parts[0]}:{parts[1]}]"
                return sliced
        if isinstance(index, TInt) and self.e and isinstance(value, (int, float)) and not isinstance(value, bool):
            return number(plain(value), f"{self.e}[{index.e}]")
        return value

    def __deepcopy__(self, memo):
        made = TList(copy.deepcopy(list(self), memo))
        made.e = self.e
        return made

    def __copy__(self):
        made = TList(self)
        made.e = self.e
        return made

    def __reduce__(self):
        return (list, (list(self),))


class TDict(dict):
    e = None

    def __deepcopy__(self, memo):
        made = TDict({k: copy.deepcopy(v, memo) for k, v in self.items()})
        made.e = self.e
        return made

    def __copy__(self):
        made = TDict(self)
        made.e = self.e
        return made

    copy = __copy__

    def __reduce__(self):
        return (dict, (dict(self),))


def wrap(value, e):
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return TInt(int(value), e)
    if isinstance(value, float):
        return TFloat(float(value), e)
    if type(value) in (list, TList) and len(value) < 200:
        made = TList(wrap(v, f"{e}[{k}]") for k, v in enumerate(value))
        made.e = e
        return made
    if type(value) is tuple and value and len(value) < 200 and all(isinstance(v, (int, float, tuple)) for v in value):
        return tuple(wrap(v, f"{e}[{k}]") for k, v in enumerate(value))
    if type(value) in (dict, TDict) and 0 < len(value) < 30 and all(isinstance(k, str) for k in value):
        made = TDict((k, wrap(v, f"{e}[{k!r}]")) for k, v in value.items())
        made.e = e
        return made
    return value


# --- builtins that would lose the expression ----------------------------------------------------------------------------------------------------


class _IntMeta(type):
    def __instancecheck__(cls, value):
        return isinstance(value, builtins.int)

    def __subclasscheck__(cls, other):
        return issubclass(other, builtins.int)


class traced_int(metaclass=_IntMeta):
    def __new__(cls, value=0, *rest):
        if isinstance(value, TInt):
            return value
        if isinstance(value, TFloat):
            return number(builtins.int(value.plain()), f"int({value.e})")
        return builtins.int(value, *rest)

    def __or__(self, other):
        return builtins.int | other


class traced_range:
    def __new__(cls, *args):
        plain_range = builtins.range(*[plain(a) for a in args])
        made = object.__new__(cls)
        made.range = plain_range
        if Frame.current is not None and len(args) == 1:
            number(len(plain_range), expression_of(args[0]))
        return made

    def __iter__(self):
        return iter([TInt(i, f"R{i}" if i >= 0 else repr(i)) for i in self.range])

    def __len__(self):
        return len(self.range)

    def __reversed__(self):
        return iter([TInt(i, f"R{i}" if i >= 0 else repr(i)) for i in reversed(self.range)])

    def __getitem__(self, key):
        return self.range[key]

    def __contains__(self, value):
        return value in self.range


def traced_len(value):
    count = builtins.len(value)
    return number(count, f"len({value.e})") if isinstance(value, TList) and value.e else count


def traced_sum(value, *rest):
    if isinstance(value, TList) and value.e and not rest:
        return number(plain(builtins.sum(plain(value))), f"sum({value.e})")
    return builtins.sum(value, *rest)


def _extreme(name, function):
    def extreme(*args, **kw):
        if len(args) >= 2 and not kw and all(isinstance(a, (int, float)) for a in args) and any(isinstance(a, (TInt, TFloat)) for a in args):
            return number(function(*[plain(a) for a in args]), f"{name}({', '.join(expression_of(a) for a in args)})")
        if len(args) == 1 and isinstance(args[0], TList) and args[0].e and not kw:
            return number(function(plain(args[0])), f"{name}({args[0].e})")
        return function(*args, **kw)

    return extreme


TRACED = {"int": traced_int, "range": traced_range, "len": traced_len, "sum": traced_sum, "max": _extreme("max", builtins.max), "min": _extreme("min", builtins.min)}
_injected = set()
_armed = _injected_at = 0


def inject(skip=()):
    global _injected_at
    if _injected_at == len(sys.modules):
        return
    _injected_at = len(sys.modules)
    for name, module in list(sys.modules.items()):
        if name in _injected or module is None or not name.startswith("transformers"):
            continue
        if ".modeling_" in name or name == "transformers.modeling_rope_utils":
            if name in ("transformers.modeling_utils",) or name.startswith("transformers.modeling_") and "rope" not in name:
                continue
            for key, value in TRACED.items():
                if key not in skip:
                    vars(module)[key] = value
            _injected.add(name)


# --- shapes of new tensors ------------------------------------------------------------------------------------------------------------------------

FACTORIES = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn}


class Shapes(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if function in FACTORIES and isinstance(result, torch.Tensor):
            size = kwargs.get("size", args)
            if "size" not in kwargs and args and isinstance(args[0], (tuple, list, torch.Size)):
                size = args[0]
            size = list(size)[: result.dim()]
            if len(size) == result.dim() and all(isinstance(s, int) for s in size) and tuple(size) == tuple(result.shape):
                result._weft = [expression_of(s) for s in size]
        elif function is torch.arange and isinstance(result, torch.Tensor):
            bounds = [a for a in args]
            start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (bounds + [1])[:3] if bounds else (0, kwargs.get("end", 0), 1)
            step = kwargs.get("step", step)
            if isinstance(step, TFloat) and result.shape[0]:
                number(result.shape[0], f"ceil(({expression_of(stop)} - {expression_of(start)}) / {step.e})")
            if isinstance(stop, TInt) and plain(start) == 0:
                e = stop.e if plain(step) == 1 else f"(({stop.e} + {plain(step) - 1}) // {expression_of(step)})"
                result._weft = [e]
                number(result.shape[0], e)
        elif isinstance(result, torch.Tensor):
            source = args[0] if args else None
            if isinstance(source, torch.Tensor) and hasattr(source, "_weft") and source.shape == result.shape and not hasattr(result, "_weft"):
                result._weft = source._weft
        return result


def _keep_shape(cls):
    original = cls.__new__

    def new(kind, data=None, *args, **kwargs):
        made = original(kind, data, *args, **kwargs)
        if data is not None and hasattr(data, "_weft"):
            made._weft = data._weft
        return made

    cls.__new__ = new


# --- frames -----------------------------------------------------------------------------------------------------------------------------------------


class Frame:
    current = None
    count = 0

    def __init__(self, module, parent):
        Frame.count += 1
        self.id = Frame.count
        self.module = module
        self.cls = type(module)
        self.parent = parent
        self.args = {}  # name: plain value
        self.arg_expressions = {}  # name: expression in the parent's terms
        self.configs = []  # (argument name, config object)
        self.own_config = None
        self.config_in_parent = None
        self.config_snapshot = {}
        self.accessed = {}  # config id: set of fields
        self.pool = []
        self.conditions = set()
        self.auto = None
        self.post_init = None
        self.region = None
        self.float_types = {torch.get_default_dtype()}


class Registered:
    """One config object whose fields carry expressions."""

    def __init__(self, config, cid, base, sets):
        self.config, self.cid, self.base, self.sets = config, cid, base, sets
        self.values = {}
        self.expect = {}


class Session:
    """The build of one model."""

    def __init__(self):
        self.configs = {}  # id(config): Registered
        self.by_cid = {}
        self.keep = []
        self.frames = []
        self.frames_by_id = {}
        self.writers = {}  # (config, field): the constructor that set it

    NOISE = {"dtype", "transformers_version", "architectures", "_name_or_path", "label2id", "name_or_path"}

    def register(self, config):
        """Gives every field of config an expression naming it; finds out which other config it was copied from and what was changed."""
        known = self.configs.get(id(config))
        if known is not None and not self._changed(known):
            return known
        base, sets = self._origin(config, known)
        made = Registered(config, len(self.by_cid), base, sets)
        self.configs[id(config)] = made
        self.by_cid[made.cid] = made
        self.keep.append(config)
        for field, value in list(config.__dict__.items()):
            if field.startswith("_") or is_config(value) or field in self.NOISE:
                continue
            value = made.values[field] = plain(value)
            wrapped = wrap(config.__dict__[field] if not isinstance(config.__dict__[field], (TList, TDict)) else unwrap(config.__dict__[field]), f"C{made.cid}_{field}")
            made.expect[field] = id(wrapped)
            config.__dict__[field] = wrapped
            self.keep.append(wrapped)
        for value in list(config.__dict__.values()):
            if is_config(value):
                self.register(value)
        return made

    def _changed(self, known):
        for field, value in known.config.__dict__.items():
            if field.startswith("_") or field in self.NOISE or is_config(value):
                continue
            if field not in known.values:
                return True
            if id(value) != known.expect[field] and plain(value) != known.values[field]:
                return True
        return False

    def _origin(self, config, known):
        if known is not None:
            base = known
        else:
            votes = {}
            for field, value in config.__dict__.items():
                e = getattr(value, "e", None)
                match = re.match(r"^C(\d+)_(.*)$", e) if e else None
                if match and match.group(2) == field:
                    votes[int(match.group(1))] = votes.get(int(match.group(1)), 0) + 1
            base = self.by_cid[max(votes, key=votes.get)] if votes else None
            if base is not None and type(base.config) is not type(config):
                base = None
        if base is None:
            return None, {}
        sets = {}
        for field, value in config.__dict__.items():
            if field.startswith("_") or is_config(value) or field in self.NOISE:
                continue
            if known is not None and self.writers.get((id(config), field)) is not Frame.current:
                continue  # an earlier sibling's doing
            if field not in base.values or plain(value) != base.values[field]:
                sets[field] = (plain(value), expression_of(value))
            elif getattr(value, "e", None) and value.e != f"C{base.cid}_{field}":
                sets[field] = (plain(value), expression_of(value))
        return base, sets


def unwrap(value):
    if isinstance(value, (TList, list)):
        return [unwrap(v) for v in value]
    if isinstance(value, tuple):
        return tuple(unwrap(v) for v in value)
    if isinstance(value, (TDict, dict)):
        return {k: unwrap(v) for k, v in value.items()}
    if isinstance(value, (TInt, TFloat)):
        return value.plain()
    return value


def is_config(value):
    return isinstance(value, Config)


Config = None
session = None
MARK = []  # what an automatic factory is about to build
_building = []
LEAVES = set()


@functools.lru_cache(maxsize=None)
def _signature(cls):
    for owner in cls.__mro__:
        init = owner.__dict__.get("__init__")
        if init is None:
            continue
        signature = inspect.signature(getattr(init, "_weft_original", init))
        if not any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            return signature
    return None


@functools.lru_cache(maxsize=None)
def _is_own(cls):
    return inspect.signature(getattr(cls.__init__, "_weft_original", cls.__init__)) == _signature(cls)


def _bind(cls, module, args, kwargs):
    signature = _signature(cls)
    # a constructor of *args and **kwargs that passes on all but a few of its own
    own = {} if signature is None or _is_own(cls) else {k: v for k, v in kwargs.items() if k not in signature.parameters}
    if issubclass(cls, nn.RNNBase):  # whose constructor has the kind in front
        args = (cls.__name__, *args)
    try:
        bound = signature.bind(module, *args, **{k: v for k, v in kwargs.items() if k not in own})
    except Exception:
        return {f"argument{k}": a for k, a in enumerate(args)} | kwargs, None
    named = dict(bound.arguments) | own
    named.pop(next(iter(signature.parameters)), None)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            named |= named.pop(name, {})
    return named, signature


def _enter(module, args, kwargs):
    frame = Frame(module, Frame.current)
    session.frames_by_id[frame.id] = frame
    leaf = type(module) in LEAVES
    named, signature = _bind(type(module), module, args, kwargs)
    replaced = {}
    for name, value in named.items():
        if is_config(value):
            registered = session.register(value)
            if frame.own_config is None:
                frame.own_config = registered
                frame.config_name = name
            else:
                frame.configs.append((name, registered))
            replaced[name] = value
            frame.args[name] = "<config>"
            continue
        if isinstance(value, numbers.Integral) and not isinstance(value, (int, bool)):
            value = int(value)  # of numpy
        if isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type == "cpu" and not value.is_floating_point():
            value = int(value)
        if isinstance(value, nn.Module) or isinstance(value, torch.Tensor):
            replaced[name] = value
            continue
        frame.args[name] = plain(value)
        frame.arg_expressions[name] = expression_of(value)
        replaced[name] = value if leaf else wrap(unwrap(value), f"A{frame.id}_{name}") if isinstance(value, (int, float, list, tuple)) else value
    if signature is not None:  # defaults are arguments like any other
        for name, parameter in signature.parameters.items():
            if name not in named and parameter.default is not parameter.empty:
                value = parameter.default
                if is_config(value) or isinstance(value, (nn.Module, torch.Tensor)):
                    continue
                frame.args[name] = plain(value)
                frame.arg_expressions[name] = None
                if not leaf and isinstance(value, (int, float)) and not isinstance(value, bool):
                    replaced[name] = wrap(value, f"A{frame.id}_{name}")
    if MARK and MARK[-1] is not None:
        frame.auto = MARK[-1]
        MARK[-1] = None
    if frame.own_config is not None:
        frame.config_snapshot = session_snapshot(frame.own_config.config)
    for name, registered in frame.configs:
        frame.args[name] = session_snapshot(registered.config)
    if leaf or signature is None:
        return frame, args, kwargs
    if any(p.kind is p.POSITIONAL_ONLY for p in signature.parameters.values()):
        return frame, args, kwargs
    if _is_own(type(module)):
        return frame, (), replaced
    # a constructor that only passes on *args: keep the positions
    count = len(args)
    names = list(signature.parameters)[1:]
    return frame, tuple(replaced.get(n, a) for n, a in zip(names[:count], args)), {k: replaced.get(k, v) for k, v in kwargs.items()}


def session_snapshot(config):
    made = copy.copy(config)
    made.__dict__ = {k: (session_snapshot(v) if is_config(v) else unwrap(v)) for k, v in config.__dict__.items()}
    return made


def _wrap_init(cls):
    original = cls.__dict__["__init__"]
    if hasattr(original, "_weft_original"):
        return

    def __init__(self, *args, **kwargs):
        if session is None or not isinstance(self, nn.Module) or type(self) in CONTAINERS or (_building and id(self) in _building):
            return original(self, *args, **kwargs)
        if Frame.current is not None and type(Frame.current.module) in LEAVES:
            return original(self, *args, **kwargs)
        frame, args, kwargs = _enter(self, args, kwargs)
        Frame.current = frame
        _building.append(id(self))
        MARK.append(None)
        try:
            original(self, *args, **kwargs)
        finally:
            Frame.current = frame.parent
            _building.pop()
            MARK.pop()
        object.__setattr__(self, "_weft_frame", frame)
        frame.exit_state = EXIT(frame)
        session.frames.append(frame)

    __init__._weft_original = original
    __init__.__signature__ = inspect.signature(original)
    __init__.__wrapped__ = original
    cls.__init__ = __init__


EXIT = None
CONTAINERS = {nn.ModuleList, nn.Sequential, nn.ModuleDict, nn.ParameterList, nn.ParameterDict}


def arm_modules():
    """Wraps the constructors of all module classes that exist by now."""
    global _armed
    if _armed == len(sys.modules):
        return
    _armed = len(sys.modules)
    todo, seen = [nn.Module], set()
    while todo:
        cls = todo.pop()
        for sub in cls.__subclasses__():
            if sub not in seen:
                seen.add(sub)
                todo.append(sub)
                for owner in sub.__mro__:  # mixins have constructors too
                    if "__init__" in owner.__dict__ and owner not in CONTAINERS and owner not in (nn.Module, object):
                        _wrap_init(owner)


def arm(pretrained_config, pretrained_model, auto_base, leaves, exit_function):
    global Config, EXIT
    Config = pretrained_config
    EXIT = exit_function
    LEAVES.update(leaves)
    for cls in leaves:  # values do not matter
        for name in ("reset_parameters", "_reset_parameters"):
            if name in cls.__dict__ or (name == "reset_parameters" and hasattr(cls, name)):
                setattr(cls, name, lambda self: None)
    _keep_shape(nn.Parameter)
    _keep_shape(nn.Buffer)

    getter = pretrained_config.__getattribute__

    def __getattribute__(self, key):
        if session is not None and Frame.current is not None and not key.startswith("_"):
            Frame.current.accessed.setdefault(id(self), set()).add(key)
            if key == "num_labels" and id(self) in session.configs:  # a property over id2label
                value = getter(self, key)
                return TInt(value, f"C{session.configs[id(self)].cid}_num_labels") if isinstance(value, int) else value
        return getter(self, key)

    pretrained_config.__getattribute__ = __getattribute__

    setter = pretrained_config.__setattr__

    def __setattr__(self, key, value):
        if session is not None and Frame.current is not None:
            session.writers[id(self), key] = Frame.current
        setter(self, key, value)

    pretrained_config.__setattr__ = __setattr__
    post_init = pretrained_model.post_init

    def recorded_post_init(self):
        frame = Frame.current
        if frame is not None and frame.module is self and frame.post_init is None:
            frame.post_init = {
                k: copy.deepcopy(getattr(self, k, None))
                for k in ("_tied_weights_keys", "_keys_to_ignore_on_load_missing", "_keys_to_ignore_on_load_unexpected", "_keys_to_ignore_on_save",
                          "_keep_in_fp32_modules", "_keep_in_fp32_modules_strict", "_tp_plan", "_ep_plan")
            }
        return post_init(self)

    pretrained_model.post_init = recorded_post_init
    init_weights = pretrained_model.init_weights
    pretrained_model.init_weights = lambda self: None if session is not None else init_weights(self)  # values do not matter

    def arm_factory(cls):
        original = cls.__dict__["from_config"].__func__

        def from_config(kind, config, **kwargs):
            if session is None:
                return original(kind, config, **kwargs)
            try:  # the class may be imported only now
                kind._model_mapping[type(config)]
            except Exception:
                pass
            arm_modules()
            inject()
            MARK.append((kind.__name__, config))
            try:
                return original(kind, config, **kwargs)
            finally:
                MARK.pop()

        cls.from_config = classmethod(from_config)

    todo = [auto_base]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if "from_config" in cls.__dict__:
            arm_factory(cls)


def looked_at(root, frames, wanted):
    """{(path, field)} of the config root that constructors of wanted classes looked at."""
    paths = {}

    def walk(config, path):
        if id(config) in paths or len(path) > 4:
            return
        paths[id(config)] = path
        for field, value in config.__dict__.items():
            if is_config(value) and not field.startswith("_"):
                walk(value, path + (field,))

    walk(root, ())
    found = set()
    for frame in frames:
        if not wanted(frame.cls):
            continue
        for cid, fields in frame.accessed.items():
            registered = session.configs.get(cid)
            while registered is not None and id(registered.config) not in paths:
                registered = registered.base
            if registered is not None:
                path = paths[id(registered.config)]
                aliases = registered.config.attribute_map
                found |= {(path, aliases.get(f, f)) for f in fields}
    return found


def build(cls, config, dtype=torch.bfloat16, wanted=None):
    """The model of class cls on config, built under observation: (module, frames)."""
    global session
    arm_modules()
    inject()
    session = Session()
    old = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        session.register(config)
        with torch.device("meta"), Shapes():
            module = cls(config)
        session.looked_at = looked_at(config, session.frames, wanted) if wanted else set()
        return module, session
    finally:
        torch.set_default_dtype(old)
        session = None
        Frame.current = None
        _building.clear()
        MARK.clear()

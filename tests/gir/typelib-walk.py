# SPDX-License-Identifier: Apache-2.0
"""Usage: typelib-walk.py FILE.gir...

Walks the introspected interface and refuses what Python and JavaScript cannot use safely:

- an argument of a virtual method or callback that is no GObject, number, enumeration, string, GStrv or GVariant (a boxed
  argument is freed by gjs when the call returns, while the script may keep it);
- arrays with a length, in-out arguments, and GValue in virtual methods and callbacks;
- a virtual method that returns a string it keeps;
- an interface with properties, or with virtual methods that a script can see (scripts derive from the base class);
- a stored callback that is not followed by its user data and a destroy notify.
"""

import sys
import unittest
import xml.etree.ElementTree as ElementTree

CORE = "{http://www.gtk.org/introspection/core/1.0}"
C = "{http://www.gtk.org/introspection/c/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"

PLAIN = {
    "gboolean", "gchar", "guchar", "gshort", "gushort", "gint", "guint", "glong", "gulong", "gint8", "guint8", "gint16",
    "guint16", "gint32", "guint32", "gint64", "guint64", "gsize", "gssize", "gfloat", "gdouble", "GType", "utf8", "filename",
    "none", "GLib.Variant", "GLib.Quark",
}
# Classes of other namespaces that our virtual methods may take.
FOREIGN_CLASSES = {"GObject.Object", "Gio.Cancellable"}


def is_visible(element):
    return element.get("introspectable", "1") != "0"


class Walk:
    """The problems of one namespace."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.objects, self.callbacks = set(FOREIGN_CLASSES), {"GObject.Callback"}
        for element in namespace:
            name = element.get("name")
            if element.tag in (CORE + "class", CORE + "interface", CORE + "enumeration", CORE + "bitfield"):
                self.objects.add(name)
            elif element.tag == CORE + "callback":
                self.callbacks.add(name)
        self.problems = []
        self.walk()

    def walk(self):
        for element in self.namespace:
            if not is_visible(element):
                continue
            if element.tag == CORE + "interface":
                self.check_interface(element)
            if element.tag == CORE + "callback":
                self.check_called_back(element, element.get("name"))
            if element.tag == CORE + "class":
                for method in element.findall(CORE + "virtual-method"):
                    if is_visible(method):
                        self.check_called_back(method, f"{element.get('name')}.{method.get('name')}")
            for kind in ("function", "method", "constructor"):
                for function in [element] if element.tag == CORE + kind else element.findall(CORE + kind):
                    if is_visible(function):
                        self.check_function(function, function.get(C + "identifier"))

    def check_interface(self, interface):
        for prop in interface.findall(CORE + "property"):
            self.problems.append(f"{interface.get('name')}: an interface has no properties, found '{prop.get('name')}'")
        for method in interface.findall(CORE + "virtual-method"):
            if is_visible(method):
                self.problems.append(f"{interface.get('name')}.{method.get('name')}: a slot of an interface is (skip)")

    def check_called_back(self, callable_, where):
        for parameter in callable_.findall(f"{CORE}parameters/{CORE}parameter"):
            self.check_argument(parameter, f"{where}: argument '{parameter.get('name')}'")
        returned = callable_.find(CORE + "return-value")
        kind = returned.find(CORE + "type")
        if kind is not None and kind.get("name") in ("utf8", "filename") and returned.get("transfer-ownership") == "none":
            self.problems.append(f"{where}: returns a string that it keeps")
        self.check_array(returned, f"{where}: the returned value")

    def check_argument(self, parameter, where):
        if parameter.get("direction") == "inout":
            self.problems.append(f"{where} goes in and out")
        self.check_array(parameter, where)
        kind = parameter.find(CORE + "type")
        if kind is None:
            return
        name = kind.get("name")
        is_user_data = name == "gpointer" and (parameter.get("closure") is not None or parameter.get("name").endswith("data"))
        if name not in PLAIN and name not in self.objects and not is_user_data:
            self.problems.append(f"{where} is a {name}: only GObject, numbers, enumerations, strings, GStrv and GVariant")

    def check_array(self, carrier, where):
        array = carrier.find(CORE + "array")
        if array is None:
            return
        is_strv = array.get("zero-terminated", "1") == "1" and array.find(CORE + "type").get("name") in ("utf8", "filename")
        if array.get("length") is not None or not is_strv:
            self.problems.append(f"{where} is an array with a length; only a GStrv may be one")

    def check_function(self, function, where):
        parameters = function.findall(f"{CORE}parameters/{CORE}parameter")
        for position, parameter in enumerate(parameters):
            if parameter.get("direction") == "inout":
                self.problems.append(f"{where}: argument '{parameter.get('name')}' goes in and out")
            kind = parameter.find(CORE + "type")
            if kind is None or kind.get("name") not in self.callbacks or parameter.get("scope") == "call":
                continue
            following = [next_.find(CORE + "type").get("name") for next_ in parameters[position + 1:]
                         if next_.find(CORE + "type") is not None][:2]
            if following != ["gpointer", "GLib.DestroyNotify"]:
                self.problems.append(f"{where}: '{parameter.get('name')}' is kept, so user data and a destroy notify follow it")


def problems_of(text):
    return [problem for namespace in ElementTree.fromstring(text).findall(CORE + "namespace")
            for problem in Walk(namespace).problems]


# What the walk must refuse: a fragment, and a part of the problem. None: it must pass.
VIRTUAL = '<class name="Base"><virtual-method name="run"><return-value transfer-ownership="{0}"><type name="{1}"/></return-value>' \
          "<parameters>{2}</parameters></virtual-method></class>"
FUNCTION = '<function name="f" c:identifier="f"><return-value><type name="none"/></return-value><parameters>{0}</parameters></function>' \
           '<callback name="Func"><return-value><type name="none"/></return-value></callback>'
CASES = [
    (VIRTUAL.format("none", "none", '<parameter name="a"><type name="Tensor"/></parameter>'), "is a Tensor"),
    (VIRTUAL.format("none", "none", '<parameter name="a"><type name="GObject.Value"/></parameter>'), "is a GObject.Value"),
    (VIRTUAL.format("none", "none", '<parameter name="a"><array length="1"><type name="gint"/></array></parameter>'), "array"),
    (VIRTUAL.format("none", "none", '<parameter name="a" direction="inout"><type name="gint"/></parameter>'), "in and out"),
    (VIRTUAL.format("none", "utf8", ""), "returns a string"),
    (VIRTUAL.format("full", "utf8", ""), None),
    (VIRTUAL.format("full", "Tensor", '<parameter name="a"><array><type name="utf8"/></array></parameter>'), None),
    (VIRTUAL.format("full", "none", '<parameter name="a"><type name="Base"/></parameter>'), None),
    ('<interface name="Op"><virtual-method name="run"/></interface>', "is (skip)"),
    ('<interface name="Op"><virtual-method name="run" introspectable="0"/></interface>', None),
    ('<interface name="Op"><property name="p"/></interface>', "no properties"),
    (FUNCTION.format('<parameter name="f" scope="notified"><type name="Func"/></parameter>'), "is kept"),
    (FUNCTION.format('<parameter name="f" scope="call"><type name="Func"/></parameter>'), None),
    (FUNCTION.format('<parameter name="f" scope="notified"><type name="Func"/></parameter><parameter name="d"><type name="gpointer"/>'
                     '</parameter><parameter name="n"><type name="GLib.DestroyNotify"/></parameter>'), None),
    ('<callback name="Func"><return-value><type name="none"/></return-value><parameters><parameter name="t"><type name="Tensor"/>'
     "</parameter></parameters></callback>", "is a Tensor"),
]


class WalkTest(unittest.TestCase):
    files = []

    def test_the_walk_refuses(self):
        for fragment, expected in CASES:
            with self.subTest(fragment=fragment):
                problems = problems_of(f'<repository xmlns="{CORE[1:-1]}" xmlns:c="{C[1:-1]}"><namespace name="N">{fragment}'
                                       "</namespace></repository>")
                self.assertEqual(len(problems), 0 if expected is None else 1, problems)
                self.assertIn(expected or "", "".join(problems))

    def test_our_namespaces_pass(self):
        self.assertTrue(self.files)
        for path in self.files:
            with self.subTest(path=path), open(path, encoding="utf-8") as file:
                self.assertEqual(problems_of(file.read()), [])


if __name__ == "__main__":
    WalkTest.files = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])

package house

import (
	"cmp"
	"go/ast"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	wayHead = regexp.MustCompile(`^### (.+)$`)
	wayStep = regexp.MustCompile("^\\d+\\. `([^`]+)`(?:, through `([^`]+)`)?(, from the API server)?")
)

// code is what the ways of ARCHITECTURE.md may name: "package: Type.Method" or "package: function",
// with the file and all identifiers of its body, and "package: Type.member" of structs and
// interfaces.
type code struct {
	file    map[string]string
	names   map[string][]string
	members map[string]bool
}

func readCode(all []source) code {
	c := code{map[string]string{}, map[string][]string{}, map[string]bool{}}
	for _, s := range all {
		if !s.product() {
			continue
		}
		prefix := path.Dir(s.path) + ": "
		ast.Inspect(s.file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				name := prefix + receiver(node) + node.Name.Name
				c.file[name] = s.path
				ast.Inspect(node, func(inner ast.Node) bool {
					if ident, ok := inner.(*ast.Ident); ok && ident != node.Name {
						c.names[name] = append(c.names[name], ident.Name)
					}
					return true
				})
			case *ast.TypeSpec:
				var fields *ast.FieldList
				switch kind := node.Type.(type) {
				case *ast.StructType:
					fields = kind.Fields
				case *ast.InterfaceType:
					fields = kind.Methods
				default:
					return true
				}
				for _, field := range fields.List {
					for _, name := range field.Names {
						c.members[prefix+node.Name.Name+"."+name.Name] = true
					}
				}
			}
			return true
		})
	}
	return c
}

// called lists the functions with a name, in whatever package and type.
func (c code) called(name string) (found []string) {
	for full := range c.file {
		if last(full) == name {
			found = append(found, full)
		}
	}
	slices.Sort(found)
	return found
}

// last is the part of a name behind its package and type.
func last(name string) string { return name[strings.LastIndexAny(name, " .")+1:] }

// TestWays checks the ways that ARCHITECTURE.md lists under "Ways through the code". A step must be
// named by the step above it, or by one that led there. A step
// "through `package: Type.member`" need not be: there the member must be named, which is a field or
// the method of an interface. A step "from the API server" needs no step above it.
func TestWays(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	must(t, err)
	_, text, _ := strings.Cut(string(data), "\n## Ways through the code\n")
	text, _, _ = strings.Cut(text, "\n## ")
	c, way := readCode(sources(t)), ""
	var above []string
	for line := range strings.Lines(text) {
		if head := wayHead.FindStringSubmatch(strings.TrimSpace(line)); head != nil {
			way, above = head[1], nil
			continue
		}
		step := wayStep.FindStringSubmatch(line)
		if step == nil {
			continue
		}
		name, through := step[1], step[2]
		if c.file[name] == "" {
			t.Errorf("%s: there is no function %q; elsewhere is %q", way, name, c.called(last(name)))
			continue
		}
		switch {
		case step[3] != "":
			above = nil
		case through != "" && !c.members[through]:
			t.Errorf("%s: step %q: there is no field or method %q", way, name, through)
		case len(above) > 0:
			from, wanted := above, last(cmp.Or(through, name))
			for len(above) > 0 && !slices.Contains(c.names[above[len(above)-1]], wanted) {
				above = above[:len(above)-1]
			}
			if len(above) == 0 {
				t.Errorf("%s: none of the steps %q names %s of the next one, %q", way, from, wanted, name)
			}
		}
		above = append(slices.Clone(above), name)
	}
	if len(above) == 0 {
		t.Error("the last way has no steps")
	}
}

// receiver is the type of a method with a dot behind it, or empty for a function.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	typed := function.Recv.List[0].Type
	if pointer, ok := typed.(*ast.StarExpr); ok {
		typed = pointer.X
	}
	switch generic := typed.(type) {
	case *ast.IndexExpr:
		typed = generic.X
	case *ast.IndexListExpr:
		typed = generic.X
	}
	return types.ExprString(typed) + "."
}

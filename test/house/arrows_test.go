package house

import (
	"cmp"
	"go/ast"
	"path"
	"slices"
	"testing"
)

// backArrows counts, for each package, the arrows between its files that run back up.
//
// File a has one arrow to file b if a uses a name that b declares: a top-level name, or a method
// whose name nothing else in the package has (no second method, no field, no interface). Files
// then stand in an order, users above what they use. The order starts with the files that use most
// and are used least; after that each file moves to where fewest arrows run back, until no move
// helps. An arrow from a lower file to a higher one runs back.
func backArrows(_ *testing.T, all []source) findings {
	packages := map[string][]source{}
	for _, s := range all {
		if s.product() {
			packages[path.Dir(s.path)] = append(packages[path.Dir(s.path)], s)
		}
	}
	found := findings{}
	for dir, files := range packages {
		found.add(dir, runBack(arrows(files)), dir)
	}
	return found
}

// arrows returns a matrix: file a uses a name that file b declares.
func arrows(files []source) [][]bool {
	const several = -1
	at := map[string]int{}
	declare := func(name string, file int) {
		if first, ok := at[name]; ok && first != file {
			file = several
		}
		at[name] = file
	}
	for i, s := range files {
		for _, name := range declared(s.file) {
			declare(name, i)
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			var fields *ast.FieldList
			switch node := node.(type) {
			case *ast.StructType:
				fields = node.Fields
			case *ast.InterfaceType:
				fields = node.Methods
			default:
				return true
			}
			for _, field := range fields.List {
				for _, name := range field.Names {
					at["."+name.Name] = several
				}
			}
			return true
		})
	}
	uses := make([][]bool, len(files))
	for i, s := range files {
		uses[i] = make([]bool, len(files))
		use := func(name string) {
			if to, ok := at[name]; ok && to != several && to != i {
				uses[i][to] = true
			}
		}
		for _, name := range s.file.Unresolved {
			use(name.Name)
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && !ofImport(selector, at) {
				use("." + selector.Sel.Name)
			}
			return true
		})
	}
	return uses
}

// ofImport reports whether a selector begins with the name of an imported package.
func ofImport(selector *ast.SelectorExpr, declared map[string]int) bool {
	name, ok := selector.X.(*ast.Ident)
	if !ok || name.Obj != nil {
		return false
	}
	_, ours := declared[name.Name]
	return !ours
}

// runBack puts the files in order and counts the arrows that run back.
func runBack(uses [][]bool) (back int) {
	degree := make([]int, len(uses))
	order := make([]int, len(uses))
	for a := range uses {
		order[a] = a
		for b, used := range uses[a] {
			if used {
				degree[a]++
				degree[b]--
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(degree[b], degree[a]) })
	count := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	for moved := true; moved; {
		moved = false
		for file := range uses {
			now := slices.Index(order, file)
			rest := slices.Delete(slices.Clone(order), now, now+1)
			cost, best, least, here := 0, 0, 0, 0 // relative to the first place
			for i, other := range rest {
				cost += count(uses[file][other]) - count(uses[other][file])
				if cost < least {
					best, least = i+1, cost
				}
				if i+1 == now {
					here = cost
				}
			}
			if least < here {
				order, moved = slices.Insert(rest, best, file), true
			}
		}
	}
	for i, high := range order {
		for _, low := range order[i+1:] {
			back += count(uses[low][high])
		}
	}
	return back
}

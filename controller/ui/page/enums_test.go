package page_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"strconv"
	"testing"
)

// values are those of an enumeration of the API, as its source has them.
func values[T ~string](t *testing.T, name string) iter.Seq[T] {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../shared/api/types.gen.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []T
	for n := range ast.Preorder(file) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			continue
		}
		of, isName := spec.Type.(*ast.Ident)
		literal, isLiteral := spec.Values[0].(*ast.BasicLit)
		if !isName || !isLiteral || of.Name != name {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, T(text))
	}
	if len(found) < 2 {
		t.Fatalf("%s has %d values", name, len(found))
	}
	return func(yield func(T) bool) {
		for _, v := range found {
			if !yield(v) {
				return
			}
		}
	}
}

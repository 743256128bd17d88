package main

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// files are the types that a configuration file is read into.
var files = map[string]struct{ folder, name string }{
	"agent.yaml":      {"agent/config", "Config"},
	"controller.yaml": {"controller/config", "Config"},
	"hitchctl.yaml":   {"controller/hitchctl/connect", "File"},
}

func settings(_ context.Context, s *source) (list []string, err error) {
	for file, is := range files {
		object := s.pkg(is.folder).Types.Scope().Lookup(is.name)
		if object == nil {
			return nil, fmt.Errorf("%s: no type %s in %s", file, is.name, is.folder)
		}
		list = append(list, tree(file+" ", object.Type())...)
	}
	return list, nil
}

// tree are the members of a type, and those of the structs in it.
func tree(prefix string, t types.Type) (list []string) {
	for _, m := range tagged(t) {
		if m.name == "*" {
			list = append(list, tree(prefix, m.typ)...)
			continue
		}
		if inner := tree(prefix+m.name+".", m.typ); inner != nil {
			list = append(list, inner...)
			continue
		}
		list = append(list, prefix+m.name+" "+shown(m.typ))
	}
	return list
}

type member struct {
	name string
	typ  types.Type
}

// tagged are the fields of a struct that have a name in JSON, and * for an embedded one.
func tagged(t types.Type) (list []member) {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	named := false
	for i := range s.NumFields() {
		name, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
		switch {
		case name == "-":
		case name != "":
			named = true
			list = append(list, member{name, s.Field(i).Type()})
		case s.Field(i).Embedded():
			list = append(list, member{"*", s.Field(i).Type()})
		}
	}
	if !named {
		return nil
	}
	return list
}

func shown(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }

// others are the packages whose types are other people's formats, in openapi.yaml, or
// settings.
var others = []string{"shared/api", "shared/client", "controller/cloud/openstack", "agent/config", "controller/config", "controller/hitchctl/connect"}

// members are those of the structs that have names in JSON, - for a struct without a name
// of its own.
func members(_ context.Context, s *source) (list []string, err error) {
	names := map[ast.Expr]string{}
	s.inspect(func(p *packages.Package, n ast.Node) bool {
		if slices.Contains(others, folder(p)) {
			return false
		}
		switch n := n.(type) {
		case *ast.TypeSpec:
			names[n.Type] = n.Name.Name
		case *ast.StructType:
			for _, m := range tagged(p.TypesInfo.Types[n].Type) {
				list = append(list, fmt.Sprintf("%s %s.%s %s", folder(p), cmp.Or(names[n], "-"), m.name, shown(m.typ)))
			}
		}
		return true
	})
	return list, nil
}

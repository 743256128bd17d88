package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/nodehitch/nodehitch/packaging/programs"
)

const module = "github.com/nodehitch/nodehitch"

// source is the code of the programs, with its types. Packages that no program links
// have no public names.
type source struct {
	root     string
	packages []*packages.Package
}

// load reads the tree around the working directory.
func load(ctx context.Context) (*source, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	s := &source{root: filepath.Dir(strings.TrimSpace(string(out)))}
	linked, err := s.linked(ctx)
	if err != nil {
		return nil, err
	}
	s.packages, err = packages.Load(&packages.Config{Context: ctx, Dir: s.root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedEmbedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports}, linked...)
	if err != nil {
		return nil, err
	}
	for _, p := range s.packages {
		for _, err := range p.Errors {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, err)
		}
	}
	return s, nil
}

// linked are the project's packages in the programs.
func (s *source) linked(ctx context.Context) (list []string, err error) {
	args := []string{"list", "-deps"}
	for _, p := range programs.All {
		args = append(args, "./"+p.Main)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = s.root, os.Stderr
	out, err := cmd.Output()
	for _, name := range strings.Fields(string(out)) {
		if strings.HasPrefix(name, module+"/") {
			list = append(list, name)
		}
	}
	return list, err
}

// pkg is a linked package by its folder.
func (s *source) pkg(folder string) *packages.Package {
	for _, p := range s.packages {
		if p.PkgPath == module+"/"+folder {
			return p
		}
	}
	panic("names: no program links " + folder)
}

func folder(p *packages.Package) string { return strings.TrimPrefix(p.PkgPath, module+"/") }

// side is the part of the project that a package belongs to: code that moves within it
// changes no public name.
func side(p *packages.Package) string {
	name := folder(p)
	if strings.HasPrefix(name, "controller/hitchctl") {
		return "hitchctl"
	}
	top, _, _ := strings.Cut(name, "/")
	return top
}

// constants are those that a package declares, of one kind.
func constants(p *packages.Package, kind constant.Kind) (list []*types.Const) {
	for _, object := range p.TypesInfo.Defs {
		if c, ok := object.(*types.Const); ok && c.Parent() == p.Types.Scope() && c.Name() != "_" && c.Val().Kind() == kind {
			list = append(list, c)
		}
	}
	return list
}

// text is the value of an expression that is a constant string.
func text(p *packages.Package, e ast.Expr) (string, bool) {
	value := p.TypesInfo.Types[e].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

// texts calls visit with each constant string where it is written, the largest ones: not
// with the parts of a sum.
func (s *source) texts(visit func(p *packages.Package, text string)) {
	s.inspect(func(p *packages.Package, n ast.Node) bool {
		switch e := n.(type) {
		case *ast.BasicLit, *ast.BinaryExpr:
			if value, ok := text(p, e.(ast.Expr)); ok {
				visit(p, value)
				return false
			}
		}
		return true
	})
}

// inspect visits the code that people wrote: of generated files, openapi.yaml is the source.
func (s *source) inspect(visit func(p *packages.Package, n ast.Node) bool) {
	for _, p := range s.packages {
		for _, file := range p.Syntax {
			if !ast.IsGenerated(file) {
				ast.Inspect(file, func(n ast.Node) bool { return n != nil && visit(p, n) })
			}
		}
	}
}

// callee is the function that a call calls, nil if that is known at run time only.
func callee(p *packages.Package, call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		fn, _ := p.TypesInfo.Uses[f].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := p.TypesInfo.Uses[f.Sel].(*types.Func)
		return fn
	case *ast.IndexExpr:
		return callee(p, &ast.CallExpr{Fun: f.X})
	}
	return nil
}

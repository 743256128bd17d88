package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// attributes follows the code that reads additionalParams, from (*reading).params: which
// names it asks an object for, and which method reads what it got.
func attributes(_ context.Context, s *source) ([]string, error) {
	r := &reader{p: s.pkg("shared/params"), functions: map[*types.Func]*ast.FuncDecl{}}
	var root *ast.FuncDecl
	for _, file := range r.p.Syntax {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				r.functions[r.p.TypesInfo.Defs[f.Name].(*types.Func)] = f
				if f.Name.Name == "params" && f.Recv != nil {
					root = f
				}
			}
		}
	}
	if root == nil {
		return nil, fmt.Errorf("shared/params has no method params")
	}
	r.walk(root, "")
	return r.list, nil
}

type reader struct {
	p         *packages.Package
	functions map[*types.Func]*ast.FuncDecl
	list      []string
}

// walk lists what a function asks the object at a place for. Objects that it makes of
// attributes are known by their variables, all others are the one at the place.
func (r *reader) walk(f *ast.FuncDecl, place string) {
	at := map[types.Object]string{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					at[r.p.TypesInfo.ObjectOf(id)] = r.place(n.Rhs[i], at, place)
				}
			}
		case *ast.RangeStmt:
			if id, ok := n.Value.(*ast.Ident); ok {
				at[r.p.TypesInfo.ObjectOf(id)] = r.place(n.X, at, place)
			}
		case *ast.CallExpr:
			r.call(n, at, place)
		}
		return true
	})
}

// place is where the object or list is that an expression gives.
func (r *reader) place(e ast.Expr, at map[types.Object]string, place string) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if known, ok := at[r.p.TypesInfo.ObjectOf(e)]; ok {
			return known
		}
	case *ast.CallExpr:
		f := callee(r.p, e)
		name, asks := r.name(e)
		switch {
		case !asks:
		case strings.HasPrefix(shown(f.Signature().Results().At(0).Type()), "[]"):
			return place + name + "[]."
		default:
			return place + name + "."
		}
	}
	return place
}

// call is one that asks for an attribute, or that goes on with an object.
func (r *reader) call(call *ast.CallExpr, at map[types.Object]string, place string) {
	f := callee(r.p, call)
	if f == nil || r.functions[f] == nil {
		return
	}
	subject := place
	switch method, ok := call.Fun.(*ast.SelectorExpr); {
	case ok && f.Signature().Recv() != nil:
		subject = r.place(method.X, at, place)
	case len(call.Args) > 0:
		subject = r.place(call.Args[0], at, place)
	}
	if name, asks := r.name(call); asks {
		line := subject + name + " " + r.kinds(call)
		if r.required(call) {
			line += ", required"
		}
		r.list = append(r.list, line)
		return
	}
	if receiver := f.Signature().Recv(); receiver != nil && shown(receiver.Type()) == "*params.object" {
		r.walk(r.functions[f], subject)
	}
}

// name is the attribute that a call asks for.
func (r *reader) name(call *ast.CallExpr) (string, bool) {
	f := callee(r.p, call)
	if f == nil || r.functions[f] == nil || r.asked(r.functions[f]) == nil {
		return "", false
	}
	for _, argument := range call.Args {
		if name, ok := text(r.p, argument); ok {
			return name, true
		}
	}
	return "", false
}

// asked is the call by which a function reads the attribute that its parameter `name`
// names; nil if there is none.
func (r *reader) asked(f *ast.FuncDecl) (found *ast.CallExpr) {
	if f.Name.Name == "attribute" {
		return &ast.CallExpr{}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found != nil {
			return found == nil
		}
		next := r.functions[callee(r.p, call)]
		passes := slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
			id, ok := e.(*ast.Ident)
			return ok && id.Name == "name" && r.p.TypesInfo.Types[e].Value == nil
		})
		if next != nil && next != f && passes && r.asked(next) != nil {
			found = call
		}
		return true
	})
	return found
}

// kinds are the JSON values that the attribute may be.
func (r *reader) kinds(call *ast.CallExpr) string {
	f := callee(r.p, call)
	if f.Name() != "attribute" {
		return r.kinds(r.asked(r.functions[f]))
	}
	var kinds []string
	for _, argument := range call.Args[2:] {
		if kind, ok := argument.(*ast.SelectorExpr); ok {
			kinds = append(kinds, strings.ToLower(kind.Sel.Name))
		}
	}
	return strings.Join(kinds, " or ")
}

func (r *reader) required(call *ast.CallExpr) bool {
	for _, argument := range call.Args {
		if t := r.p.TypesInfo.Types[argument]; t.Value != nil && t.Value.Kind() == constant.Bool {
			return constant.BoolVal(t.Value)
		}
	}
	return false
}

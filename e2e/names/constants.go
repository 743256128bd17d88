package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/shared/api"
)

// declared are the values of a folder's constants whose names begin so.
func declared(p *packages.Package, prefix string) (list []string) {
	for _, c := range constants(p, constant.String) {
		if strings.HasPrefix(c.Name(), prefix) {
			list = append(list, constant.StringVal(c.Val()))
		}
	}
	return list
}

func problemTypes(_ context.Context, s *source) (list []string, err error) {
	for _, name := range declared(s.pkg("shared/api"), "Problem") {
		if name != api.ProblemPrefix {
			list = append(list, fmt.Sprintf("%s %d", name, api.NewProblem(name, "").Status))
		}
	}
	return list, nil
}

// conditionTypes are the constants without a type of their own: the statuses have one.
func conditionTypes(_ context.Context, s *source) ([]string, error) {
	return untyped(s.pkg("shared/api"), "Condition"), nil
}

// untyped are those of the declared ones that have no type of their own.
func untyped(p *packages.Package, prefix string) (list []string) {
	for _, c := range constants(p, constant.String) {
		if strings.HasPrefix(c.Name(), prefix) && types.Identical(c.Type(), types.Typ[types.UntypedString]) {
			list = append(list, constant.StringVal(c.Val()))
		}
	}
	return list
}

func reasons(_ context.Context, s *source) ([]string, error) {
	return declared(s.pkg("shared/api"), "Reason"), nil
}

// upgradeReasons are the constants without a type of their own.
func upgradeReasons(_ context.Context, s *source) ([]string, error) {
	return untyped(s.pkg("shared/api"), "Upgrade"), nil
}

func events(_ context.Context, s *source) (list []string, err error) {
	for _, p := range s.packages {
		list = append(list, declared(p, "Event")...)
	}
	return list, nil
}

// variables are those that a program asks for by name, and the controller's settings.
func variables(_ context.Context, s *source) (list []string, err error) {
	for _, setting := range config.Settings {
		list = append(list, setting.Variable()+" (controller)")
	}
	s.inspect(func(p *packages.Package, n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		var function string
		switch f := call.Fun.(type) {
		case *ast.Ident:
			function = f.Name
		case *ast.SelectorExpr:
			function = f.Sel.Name
		}
		if name, ok := text(p, call.Args[0]); ok && (strings.EqualFold(function, "getenv") || function == "LookupEnv") {
			list = append(list, name+" ("+side(p)+")")
		}
		return true
	})
	return list, nil
}

// exitCodes are those that have names. The controller has none: it exits with 1 after
// any error.
func exitCodes(_ context.Context, s *source) (list []string, err error) {
	for _, p := range s.packages {
		for _, c := range constants(p, constant.Int) {
			if what, ok := strings.CutPrefix(c.Name(), "exit"); ok {
				list = append(list, fmt.Sprintf("%s %s %s", folder(p), c.Val(), what))
			}
		}
	}
	return list, nil
}

var unitName = regexp.MustCompile(`^[a-z0-9@-]+\.(service|socket|mount|target|timer)$`)

func units(_ context.Context, s *source) (list []string, err error) {
	s.texts(func(p *packages.Package, text string) {
		if unitName.MatchString(text) {
			list = append(list, text+" ("+side(p)+")")
		}
	})
	return list, nil
}

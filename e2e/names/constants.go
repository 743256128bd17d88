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

func headers(_ context.Context, s *source) (list []string, err error) {
	s.inspect(func(p *packages.Package, n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if f := callee(p, call); f != nil && strings.HasPrefix(f.FullName(), "(net/http.Header).") {
			list = append(list, pattern(p, call.Args[0])+" ("+side(p)+")")
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

var ownText = regexp.MustCompile(`(?i)^[\w./:@*-]*nodehitch[\w./:@*-]*$`)

func ownTexts(_ context.Context, s *source) (list []string, err error) {
	s.texts(func(p *packages.Package, text string) {
		if ownText.MatchString(text) && !elsewhere(text) && !strings.HasPrefix(text, api.ProblemPrefix) && folder(p) != "controller/telemetry" {
			list = append(list, side(p)+" "+text)
		}
	})
	return list, nil
}

// elsewhere says whether a group of its own has the text.
func elsewhere(text string) bool {
	return absolute.MatchString(text) || unitName.MatchString(text) || strings.HasPrefix(text, module) || strings.HasPrefix(text, "NODEHITCH_")
}

var word = regexp.MustCompile(`^[A-Za-z._/][\w.:/@*-]+$`)

// declaredTexts are what no other group has.
func declaredTexts(_ context.Context, s *source) (list []string, err error) {
	for _, p := range s.packages {
		if folder(p) == "shared/api" || folder(p) == "shared/params" {
			continue // groups of their own have all of it
		}
		for _, c := range constants(p, constant.String) {
			value := constant.StringVal(c.Val())
			if word.MatchString(value) && !ownText.MatchString(value) && !elsewhere(value) && !strings.HasPrefix(c.Name(), "Event") {
				list = append(list, folder(p)+" "+value)
			}
		}
	}
	return list, nil
}

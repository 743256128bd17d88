package main

import (
	"context"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
)

const top = `/(?:etc|var|run|usr|home|root|proc|sys|dev)/`

var (
	absolute = regexp.MustCompile(`^` + top)
	within   = regexp.MustCompile(top + `[\w./@%*+-]*[\w*]`)
	tail     = regexp.MustCompile(`^\*/[\w.*/-]*[\w-][\w.*/-]*$`)
)

// paths are absolute paths in the code, what is joined to a directory that is known at
// run time, and the paths in files that the programs carry.
func paths(_ context.Context, s *source) (list []string, err error) {
	add := func(p *packages.Package, name string) {
		if absolute.MatchString(name) && !strings.Contains(name, " ") || tail.MatchString(name) {
			list = append(list, name+" ("+side(p)+")")
		}
	}
	s.inspect(func(p *packages.Package, n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		switch e := e.(type) {
		case *ast.CallExpr:
			if isJoin(p, e) {
				add(p, pattern(p, e))
				return false
			}
		case *ast.BinaryExpr, *ast.BasicLit, *ast.Ident:
			if name := pattern(p, e); absolute.MatchString(name) {
				add(p, name)
				return false
			}
		}
		return true
	})
	for _, p := range s.packages {
		for _, file := range p.EmbedFiles {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, name := range within.FindAllString(string(content), -1) {
				list = append(list, name+" ("+side(p)+", "+filepath.Base(file)+")")
			}
		}
	}
	return list, nil
}

func isJoin(p *packages.Package, call *ast.CallExpr) bool {
	f := callee(p, call)
	return f != nil && (f.FullName() == "path/filepath.Join" || f.FullName() == "path.Join")
}

// pattern is the value of a string with * for each part that is no constant.
func pattern(p *packages.Package, e ast.Expr) string {
	if value, ok := text(p, e); ok {
		return value
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return strings.ReplaceAll(pattern(p, e.X)+pattern(p, e.Y), "**", "*")
		}
	case *ast.CallExpr:
		if isJoin(p, e) {
			var parts []string
			for _, argument := range e.Args {
				parts = append(parts, pattern(p, argument))
			}
			return path.Join(parts...)
		}
	}
	return "*"
}

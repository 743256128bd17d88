package main

import (
	"context"
	"go/ast"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// logLines are the messages of slog's calls at info and above, with the keys that each
// gives; those of loggers that are made by With stand for themselves.
func logLines(_ context.Context, s *source) (list []string, err error) {
	s.inspect(func(p *packages.Package, n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f := callee(p, call)
		if f == nil || f.Pkg() == nil || f.Pkg().Path() != "log/slog" {
			return true
		}
		level, first := strings.ToLower(f.Name()), 1
		switch f.Name() {
		case "With":
			first = 0
		case "Info", "Warn", "Error":
		default:
			return true
		}
		line := []string{side(p), level}
		if first == 1 {
			line = append(line, `"`+pattern(p, call.Args[0])+`"`)
		}
		var keys []string
		for i := first; i < len(call.Args); i += 2 {
			if key, ok := text(p, call.Args[i]); ok {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		list = append(list, strings.Join(append(line, keys...), " "))
		return true
	})
	return list, nil
}

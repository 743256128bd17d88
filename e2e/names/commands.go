package main

import (
	"context"
	"strings"

	"github.com/nodehitch/nodehitch/packaging/programs"
)

func commands(ctx context.Context, s *source) (list []string, err error) {
	for _, p := range programs.All {
		out, err := p.Run(ctx, s.root, "e2e/names/probe.Commands")
		if err != nil {
			return nil, err
		}
		list = append(list, strings.Split(strings.TrimSpace(out), "\n")...)
	}
	return list, nil
}

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

type nfs struct {
	run      *Runner
	resolver *net.Resolver
	proc     string
}

func (n *nfs) State() (NFSState, error) {
	var state NFSState
	threads, err := n.file("threads")
	if err != nil || threads == "" {
		return state, err
	}
	if state.Threads, err = strconv.Atoi(threads); err != nil {
		return state, fmt.Errorf("reading the number of the NFS server's threads: %w", err)
	}
	versions, err := n.file("versions")
	if err != nil {
		return state, err
	}
	state.Version3 = slices.Contains(strings.Fields(versions), "+3")
	// Linux before 5.3 has no list of its clients.
	clients, err := os.ReadDir(filepath.Join(n.proc, "fs/nfsd/clients"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state, err
	}
	state.Clients = len(clients)
	return state, nil
}

// file is what the kernel's NFS server says in one of its files, "" if it is not loaded.
func (n *nfs) file(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(n.proc, "fs/nfsd", name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(content)), err
}

// SetsScope asks for the help text: rpc.nfsd then exits with 2 in any case, and says before
// it that an option is unknown. The help text of no version names the option.
func (n *nfs) SetsScope(ctx context.Context) (bool, error) {
	result, err := n.run.Run(ctx, scopeHelpCommand())
	if err != nil && result.Code != 2 {
		return false, err
	}
	return !strings.Contains(result.Stderr, "Invalid argument"), nil
}

func (n *nfs) Exported(ctx context.Context) ([]Export, error) {
	result, err := n.run.Run(ctx, exportedCommand())
	if err != nil {
		return nil, err
	}
	return ParseExports(result.Stdout), nil
}

// ParseExports reads the output of `exportfs -s`: a line for each entry with the directory,
// blanks, the client, and its options in parentheses.
func ParseExports(text string) []Export {
	var exports []Export
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		client, options, _ := strings.Cut(fields[len(fields)-1], "(")
		e := Export{Directory: strings.Join(fields[:len(fields)-1], " "), Client: client}
		if options = strings.TrimSuffix(options, ")"); options != "" {
			e.Options = strings.Split(options, ",")
		}
		exports = append(exports, e)
	}
	return exports
}

// Reexport may fail because of another program's wrong entry: exportfs exits with 1 then
// too. The caller decides by the table that results, and reports the error if that is wrong.
func (n *nfs) Reexport(ctx context.Context) error {
	_, err := n.run.Run(ctx, reexportCommand())
	return err
}

func (n *nfs) Unexport(ctx context.Context, directory, client string) error {
	_, err := n.run.Run(ctx, unexportCommand(directory, client))
	return err
}

func (n *nfs) Flush(ctx context.Context) error {
	if !installed("exportfs") {
		return nil
	}
	_, err := n.run.Run(ctx, flushCommand())
	return err
}

// resolveLimit bounds a look-up; a name that does not resolve in time is not the same host.
const resolveLimit = 5 * time.Second

func (n *nfs) SameHost(ctx context.Context, a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	ofA, errA := n.addresses(ctx, a)
	ofB, errB := n.addresses(ctx, b)
	if errors.Join(errA, errB) != nil {
		return false
	}
	return slices.ContainsFunc(ofA, func(addr netip.Addr) bool { return slices.Contains(ofB, addr) })
}

func (n *nfs) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	found, err := n.resolver.LookupNetIP(ctx, "ip", name)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, err
}

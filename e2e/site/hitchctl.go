package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nodehitch/nodehitch/shared/client"
)

// Command is hitchctl as root on the controller's machine: over the socket.
func (s *Site) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := s.Lab.Command(ctx, append([]string{filepath.Join(s.bin, "hitchctl")}, args...)...)
	cmd.Env = append(os.Environ(), "NODEHITCH_SERVER=unix://"+s.socket(), "HOME="+s.dir)
	return cmd
}

// Hitchctl runs hitchctl and returns what it printed; its error has what it
// said on standard error.
func (s *Site) Hitchctl(ctx context.Context, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := s.Command(ctx, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("hitchctl %v: %w: %s%s", args, err, out, stderr.Bytes())
	}
	return out, nil
}

// JSON runs hitchctl with -o json and decodes what it prints into v.
func (s *Site) JSON(ctx context.Context, v any, args ...string) error {
	out, err := s.Hitchctl(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, v); err != nil {
		return fmt.Errorf("hitchctl %v: %w: %s", args, err, out)
	}
	return nil
}

// API is the controller's API as root of its machine, if hitchctl is too slow.
func (s *Site) API() (*client.Controller, error) {
	return client.New(client.Options{UnixSocket: s.socket()})
}

func (s *Site) socket() string { return filepath.Join(s.dir, "controller.sock") }

func (s *Site) socketClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.socket())
		},
	}}
}

// Command badagent is a build of the agent that tells its version and passes its self-test,
// and does not work as a service. The linker says in which way.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/version"
)

// fault is set by the linker.
var fault string

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	switch os.Args[1] {
	case "version":
		fmt.Println("nodehitch-agent version", version.Version)
	case "run":
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, "badagent:", err)
			os.Exit(1)
		}
	}
}

func run() error {
	switch fault {
	case "crash":
		return errors.New("a build that ends at its start")
	case "hang":
		time.Sleep(24 * time.Hour)
	case "damage":
		return errors.Join(damage(), errors.New("a build that damages the identity"))
	case "mute":
		return pretend()
	}
	return fmt.Errorf("the linker has named the fault %q", fault)
}

// pretend says that all is well and does nothing.
func pretend() error {
	if _, err := systemd.SdNotify(false, "READY=1"); err != nil {
		return err
	}
	for range time.Tick(100 * time.Millisecond) {
		if _, err := systemd.SdNotify(false, "WATCHDOG=1"); err != nil {
			return err
		}
	}
	return nil
}

// damage makes the machine forget who it is.
func damage() error {
	directory := state.DefaultDirectory
	if at := slices.Index(os.Args, "--config"); at >= 0 {
		text, err := os.ReadFile(os.Args[at+1])
		if err != nil {
			return err
		}
		var config struct{ StateDirectory string }
		if err := json.Unmarshal(text, &config); err != nil {
			return err
		}
		directory = config.StateDirectory
	}
	if err := os.WriteFile(filepath.Join(directory, "identity.pem"), []byte("x"), 0o600); err != nil {
		return err
	}
	return os.Remove(filepath.Join(directory, "machine.json"))
}

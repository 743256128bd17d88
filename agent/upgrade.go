package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/connection/enroll"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/agent/machine/inventory"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/upgrade"
)

// guardVariable is set by the unit: the build that it runs before each start.
const guardVariable = "NODEHITCH_AGENT_GUARD"

// upgrades makes the running build's side of upgrades.
func upgrades(cfg *config.Config, directory *state.Directory, configFile string, probation time.Duration, log *slog.Logger) (*upgrade.Upgrader, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return upgrade.New(upgrade.Options{
		Binary: strings.TrimSuffix(binary, " (deleted)"), Guard: os.Getenv(guardVariable), Disabled: cfg.Upgrade == config.UpgradeNone,
		ConfigFile: configFile, State: directory, Probation: probation,
		Waits:   func() (string, error) { return unfinished(directory, cfg.StateDirectory, 2*probation) },
		Install: func(ctx context.Context) error { return install.Host(configFile, io.Discard).Follow(ctx) },
		Log:     log,
	}), nil
}

// unfinished says what a switch of builds has to wait for, "" for nothing: a format, and a
// renewal that is in progress or due within this time, because a new build renews nothing
// until it is healthy.
func unfinished(directory *state.Directory, stateDirectory string, within time.Duration) (string, error) {
	volume, err := storage.Unfinished(stateDirectory)
	if err != nil {
		return "", err
	}
	if volume != "" {
		return "the format of volume " + volume, nil
	}
	identity := enroll.Files{Directory: directory}
	current, err := identity.Current()
	if err != nil {
		return "", err
	}
	next, err := identity.Next()
	if err != nil {
		return "", err
	}
	if current == nil || next != nil || time.Until(current.NotAfter()) < within {
		return "the renewal of the certificate", nil
	}
	return "", nil
}

func upgradeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade", Short: "What the unit runs of the previous build", Hidden: true, Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var file string
	cmd.PersistentFlags().StringVar(&file, "config", config.DefaultFile, "configuration `file`")
	cmd.AddCommand(
		&cobra.Command{
			Use: "check", Short: "Before each start: take back a new build that does not become healthy", Args: none,
			RunE: func(cmd *cobra.Command, _ []string) error {
				g, err := guard(file)
				if err != nil {
					return err
				}
				return g.Check(cmd.Context())
			},
		},
		&cobra.Command{
			Use: "overdue", Short: "After the deadline: restart a new build that is not healthy", Args: none,
			RunE: func(cmd *cobra.Command, _ []string) error {
				g, err := guard(file)
				if err != nil {
					return err
				}
				overdue, err := g.Overdue()
				if err != nil || !overdue {
					return err
				}
				return install.Host(file, cmd.OutOrStdout()).Restart(cmd.Context())
			},
		})
	return cmd
}

// overdueAfter is how long after its deadline a build is stopped: by then it has ended
// itself, unless it hangs.
const overdueAfter = 10 * time.Second

// guard is the previous build's side of an upgrade. It also works with a configuration that
// cannot be read: the new build cannot read it either, and is not refused for that.
func guard(file string) (*upgrade.Guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(file)
	if err != nil {
		cfg = &config.Config{StateDirectory: state.DefaultDirectory}
	}
	log := logger(cfg)
	if err != nil {
		log.Error("the configuration cannot be read, so no controller is asked", "error", err)
	}
	directory := state.At(cfg.StateDirectory)
	return &upgrade.Guard{
		State: directory, Self: self, Log: log,
		Answers: func(ctx context.Context) bool {
			return upgrade.Answers(ctx, link.Options{URLs: known(cfg, directory), RootPEM: []byte(cfg.RootCertificate), Pin: cfg.Pin})
		},
		Later: func(ctx context.Context, after time.Duration) error {
			return install.Later(ctx, after+overdueAfter, self, "upgrade", "overdue", "--config", file)
		},
	}, nil
}

// known are the URLs of the controller, also those learned.
func known(cfg *config.Config, directory *state.Directory) []string {
	urls := cfg.ControllerURLs
	learned, _ := directory.ControllerURLs() // damaged ones are learned again
	for _, u := range learned {
		urls = append(urls, u.URL)
	}
	return urls
}

func selfTestCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "self-test", Short: "Read configuration and state as the service does, and write nothing", Hidden: true, Args: none,
		RunE: func(*cobra.Command, []string) error { return selfTest(file) },
	}
	cmd.Flags().StringVar(&file, "config", config.DefaultFile, "configuration `file`")
	return cmd
}

// selfTest reads all that the service reads at its start.
func selfTest(file string) error {
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	directory := state.At(cfg.StateDirectory)
	identity := enroll.Files{Directory: directory}
	_, errMachine := directory.Machine()
	_, errApplied := directory.Applied()
	_, errURLs := directory.ControllerURLs()
	_, errCurrent := identity.Current()
	_, errNext := identity.Next()
	_, errJournal := storage.Unfinished(cfg.StateDirectory)
	made := inventory.File{Files: host.Linux(nil).Files, Path: directory.Path("inventory.json")}
	errInventory := made.Read("", &struct{}{})
	return errors.Join(errMachine, errApplied, errURLs, errCurrent, errNext, errJournal, errInventory)
}

package main

import (
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/agent/config"
	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/connection/heatsignal"
	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/agent/connection/permit"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/daemon"
	"github.com/nodehitch/nodehitch/agent/machine/facts"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/agent/upgrade"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

func runCommand() *cobra.Command {
	var file, statusFile, lockFile string
	var probation time.Duration
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run as the service: pull, converge, report",
		Long: "Runs until SIGTERM. Without a certificate it enrolls with the join token of its\n" +
			"configuration, and tries again until it may. Without a controller it keeps the\n" +
			"machine what it was last asked to be.",
		Example: "  nodehitch-agent run\n  nodehitch-agent run --config ./agent.yaml --status-file ./status.json",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(file)
			if err != nil {
				return &usageError{err}
			}
			return run(cmd, cfg, where{file, statusFile, lockFile}, probation)
		},
	}
	cmd.Flags().StringVar(&file, "config", config.DefaultFile, "configuration `file`")
	cmd.Flags().StringVar(&statusFile, "status-file", status.DefaultFile, "`file` in which to keep the status")
	cmd.Flags().StringVar(&lockFile, "lock-file", state.LockFile, "`file` that the process which converges the machine holds")
	cmd.Flags().DurationVar(&probation, "probation", upgrade.Probation, "how long the next build of the agent may take until it is healthy")
	_ = cmd.Flags().MarkHidden("probation") // it is there
	return cmd
}

// where are the files of the service.
type where struct{ config, status, lock string }

func run(cmd *cobra.Command, cfg *config.Config, at where, probation time.Duration) error {
	frugal()
	log := logger(cfg)
	directory, err := state.Open(cfg.StateDirectory)
	if err != nil {
		return err
	}
	watchdog, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		return err
	}
	log.Info("starting", "event", api.EventAgentStarted, "version", version.Version, "pid", os.Getpid())
	permits, store := new(permit.Controller), files.New(cfg.StateDirectory, log)
	upgrader, err := upgrades(cfg, directory, at.config, probation, log)
	if err != nil {
		return err
	}
	var heat *heatsignal.Signaller
	if cfg.HeatSignalURL != "" {
		heat = heatsignal.New(heatsignal.Where{URL: cfg.HeatSignalURL, Token: cfg.HeatSignalToken}, directory, log)
	}
	d := daemon.New(daemon.Options{
		Config: cfg, State: directory, Machine: identity.This(), OnLink: func(l *link.Link) { permits.Use(l); store.Use(l) },
		OnApplied: func(doc *api.NodeConfig) {
			if err := store.Keep(doc.Files()); err != nil {
				log.Warn("files that no document names are still there", "error", err)
			}
		},
		Engine: func(nodeID string) *converge.Engine {
			return engine(host.Linux(log), log, permits, store, nodeID, cfg.StateDirectory, cfg.Kubeconfig)
		},
		Facts: facts.Collect(), StatusFile: at.status, LockFile: at.lock, Upgrade: upgrader, Notify: notify(log), Watchdog: watchdog, Heat: heat, Log: log,
	})
	err = d.Run(cmd.Context())
	log.Info("stopped")
	return err
}

// frugal keeps the daemon small. It allocates next to nothing while it waits, so
// collecting often costs next to nothing either; the limit is soft, and far above
// what it needs unless a configuration is huge.
func frugal() {
	debug.SetGCPercent(40)
	debug.SetMemoryLimit(32 << 20)
}

// logger writes to stderr; under systemd the journal has the time already.
func logger(cfg *config.Config) *slog.Logger {
	level, _ := cfg.Level() // checked by config.Load
	o := &slog.HandlerOptions{Level: level}
	if os.Getenv("JOURNAL_STREAM") != "" {
		o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}

// notify speaks to the service manager, if there is one.
func notify(log *slog.Logger) func(string) {
	return func(state string) {
		if _, err := systemd.SdNotify(false, state); err != nil {
			log.Debug("the service manager was not told", "state", state, "error", err)
		}
	}
}

package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// nfsdcld keeps the record of the clients of the kernel's NFS server in a database. A client
// that is not in it gets none of its opens and locks back after a restart of the server.
const (
	nfsdcld = "nfsdcld.service"
	// defaultRecords is where nfs-utils has the record.
	defaultRecords = "/var/lib/nfs/nfsdcld"
	database       = "main.sqlite"
	// hotJournal has what a nfsdcld that was killed has not finished.
	hotJournal = database + "-journal"
)

// clientRecord is where the clients are recorded now.
type clientRecord struct {
	// directory of the database that nfsdcld has open, "" if it does not run.
	directory string
	// used says that the kernel tells nfsdcld its clients.
	used bool
}

func (s *steps) recorded(ctx context.Context) (clientRecord, error) {
	paths, err := s.Host.Units.OpenFiles(ctx, nfsdcld)
	var r clientRecord
	for _, path := range paths {
		if filepath.Base(path) == database {
			r.directory = filepath.Dir(path)
		}
		// The kernel has this pipe only while it uses nfsdcld.
		r.used = r.used || strings.HasSuffix(path, "/nfsd/cld")
	}
	return r, err
}

func (r clientRecord) elsewhere(directory string) bool { return r.directory != directory }

// recordsIn is the directory for the record, "" if that is none of the agent's business.
func (s settings) recordsIn(have owned) string {
	if s.records == "" && have.Records != "" {
		return defaultRecords
	}
	return s.records
}

// moveRecord ends nfsdcld and copies the record into the directory, if it is elsewhere. The
// kernel waits meanwhile: an upcall that nobody reads lasts for 30 s. If nothing is served, what
// is on the volume is the record of the server before, and stays.
func (s *steps) moveRecord(ctx context.Context, directory string, serves bool) error {
	if directory == "" {
		return nil
	}
	found, err := s.recorded(ctx)
	if err != nil || !found.elsewhere(directory) {
		return err
	}
	daemon, err := s.Host.Units.Unit(ctx, nfsdcld)
	if err == nil && daemon.Active == "active" { // else there may be no such unit yet
		err = s.Host.Units.Stop(ctx, nfsdcld)
	}
	if err != nil {
		return err
	}
	from := found.directory
	if from == "" { // it was stopped before a crash
		from = s.configuredRecords()
	}
	target := filepath.Join(directory, database)
	if _, err := s.Host.Files.Mode(target); from == directory || !serves && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := s.Host.Files.Mode(filepath.Join(from, database)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A journal beside a database that it is not of would damage it.
	if err := s.Host.Files.Remove(target); err != nil {
		return err
	}
	if err := s.Host.Files.Remove(filepath.Join(directory, hotJournal)); err != nil {
		return err
	}
	err = s.Host.Files.Copy(filepath.Join(from, hotJournal), filepath.Join(directory, hotJournal), 0o600)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.Host.Files.Copy(filepath.Join(from, database), target, 0o600)
}

// configuredRecords is where nfsdcld had the record when the agent wrote its configuration.
func (s *steps) configuredRecords() string {
	content, _ := s.Host.Files.Read(settingsPath) // without one, nfs-utils' own
	for line := range strings.Lines(string(content)) {
		if directory, ok := strings.CutPrefix(strings.TrimSpace(line), "storagedir="); ok {
			return directory
		}
	}
	return defaultRecords
}

// recordLimit is how long nfsdcld may take to open its database.
const recordLimit = 10 * time.Second

// startRecord starts nfsdcld and waits until it has its database open, which it does after it has
// told systemd that it runs. The kernel gives it one second when the NFS server starts, and
// records its clients elsewhere after that. nfs-utils without nfsdcld has its own record elsewhere.
func (s *steps) startRecord(ctx context.Context, directory string) error {
	daemon, err := s.Host.Units.Unit(ctx, nfsdcld)
	if err != nil || daemon.Loaded != "loaded" && directory == defaultRecords {
		return err
	}
	if err := s.Host.Units.Start(ctx, nfsdcld); err != nil {
		return converge.Wait(api.ReasonClientsNotRecorded, "%v", err)
	}
	waiting, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := s.recorded(ctx)
		if err != nil || found.directory == directory {
			return err
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			return converge.Wait(api.ReasonClientsNotRecorded, "nfsdcld has no database open in %s after %s, so the NFS server's clients would not be recorded there; it says: %s",
				directory, recordLimit, s.Host.Units.Said(ctx, nfsdcld))
		}
	}
}

// resumeRecord starts nfsdcld where it is configured, after an error while it was stopped: the
// server serves on, and would record no client.
func (s *steps) resumeRecord(ctx context.Context, err error) error {
	if again := s.startRecord(ctx, s.configuredRecords()); again != nil {
		return converge.Wait(api.ReasonClientsNotRecorded, "%v; and nfsdcld, which was stopped for that, does not run again: %v", err, again)
	}
	return err
}

// leaveSettings undoes the settings. If the NFS server goes on for others, so does its record.
func (s *steps) leaveSettings(ctx context.Context) error {
	have, err := s.owned()
	if err != nil {
		return err
	}
	var state serverState
	if have.Records != "" {
		if state, err = s.serverState(ctx); err != nil {
			return err
		}
		if err = s.moveRecord(ctx, defaultRecords, state.serves); err != nil {
			err = fmt.Errorf("moving the record of the NFS server's clients to %s: %w", defaultRecords, err)
		}
	}
	if err == nil {
		err = s.writeSettings(ctx, []file{{path: dropInPath(nfsServer)}, {path: dropInPath(nfsdcld)}, {path: settingsPath}})
	}
	if err != nil && state.serves {
		return s.resumeRecord(ctx, err)
	}
	if err != nil {
		return err
	}
	if server, err := s.Host.Units.Unit(ctx, nfsServer); err != nil {
		return err
	} else if have.Records != "" && server.Active == "active" {
		if err := s.startRecord(ctx, defaultRecords); err != nil {
			return err
		}
	}
	return s.own(func(o *owned) { o.Scope, o.Records = "", "" })
}

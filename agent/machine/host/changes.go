package host

import (
	"fmt"
	"sync/atomic"
)

// Changes counts what the agent did to the machine. Tests assert that a second convergence
// of a converged node adds nothing.
type Changes struct {
	files, commands, units, directories, engine atomic.Int64
	reads                                       atomic.Int64
}

// Count is a reading of the counters.
type Count struct {
	// Files written or removed, Commands run that change something, Units changed,
	// Directories made, guarded or detached, and changes requested of the container Engine.
	Files, Commands, Units, Directories, Engine int64
	// Reads are read-only commands; they cost a process each.
	Reads int64
}

// Count reads the counters.
func (c *Changes) Count() Count {
	return Count{
		Files: c.files.Load(), Commands: c.commands.Load(), Units: c.units.Load(),
		Directories: c.directories.Load(), Engine: c.engine.Load(), Reads: c.reads.Load(),
	}
}

// None reports whether nothing was changed.
func (c Count) None() bool { return c.Files+c.Commands+c.Units+c.Directories+c.Engine == 0 }

// Since is the difference to an earlier reading.
func (c Count) Since(before Count) Count {
	return Count{
		Files: c.Files - before.Files, Commands: c.Commands - before.Commands, Units: c.Units - before.Units,
		Directories: c.Directories - before.Directories, Engine: c.Engine - before.Engine, Reads: c.Reads - before.Reads,
	}
}

func (c Count) String() string {
	return fmt.Sprintf("%d files, %d commands, %d units, %d directories, %d things of the container engine changed; %d read-only commands",
		c.Files, c.Commands, c.Units, c.Directories, c.Engine, c.Reads)
}

// File counts a file written or removed.
func (c *Changes) File() { c.files.Add(1) }

// Command counts a command that changes something.
func (c *Changes) Command() { c.commands.Add(1) }

// Unit counts a change of a systemd unit's state.
func (c *Changes) Unit() { c.units.Add(1) }

// Directory counts a directory made, guarded or detached.
func (c *Changes) Directory() { c.directories.Add(1) }

// Engine counts a change that the container engine was asked for.
func (c *Changes) Engine() { c.engine.Add(1) }

// Read counts a read-only command.
func (c *Changes) Read() { c.reads.Add(1) }

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// openTerminal gives both ends of a new pseudo-terminal of that size.
func openTerminal(columns, rows uint16) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("opening a pseudo-terminal: %w", err)
	}
	return master, slave, nil
}

// onTerminal runs a command with everything on a terminal, types input as soon as
// the command asks with prompt, and returns what the terminal was sent.
func onTerminal(cmd *exec.Cmd, columns, rows uint16, prompt, input string) (string, error) {
	master, slave, err := openTerminal(columns, rows)
	if err != nil {
		return "", err
	}
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = slave.Close()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	buffer := make([]byte, 4096)
	for {
		n, err := master.Read(buffer)
		out.Write(buffer[:n])
		if input != "" && bytes.Contains(out.Bytes(), []byte(prompt)) {
			if _, err := io.WriteString(master, input); err != nil {
				return "", err
			}
			input = ""
		}
		if err != nil { // EIO once the command has closed its end
			break
		}
	}
	return out.String(), cmd.Wait()
}

// Command hitchctl is the command line of a nodehitch controller. See
// `hitchctl --help`.
package main

import (
	"os"

	"github.com/nodehitch/nodehitch/controller/hitchctl/command"
)

func main() { os.Exit(command.Main()) }

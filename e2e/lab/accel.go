package lab

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// accelerator is how QEMU runs a guest's instructions, and the processor that
// goes with it.
type accelerator struct {
	args []string
}

var (
	kvm = accelerator{[]string{"-accel", "kvm", "-cpu", "host"}}
	// The simplest processor with the features that every server has: without its AES
	// instructions, TLS costs a machine many times what it costs a real one. Each further
	// feature would have to be emulated.
	tcg = accelerator{[]string{"-accel", "tcg,thread=multi,tb-size=256", "-cpu", "Westmere"}}
)

var probed struct {
	sync.Once
	accelerator
}

// accelerate says how machines run here. A /dev/kvm alone shows nothing (nested and
// paravirtual hosts have one on which no ordinary kernel boots), so the first call boots
// the image's own kernel on it, under a time limit. The answer holds for this process only.
func accelerate(ctx context.Context, i image.VM, log func(string, ...any)) accelerator {
	probed.Do(func() {
		probed.accelerator = kvm
		if !bootsOn(ctx, kvm, i) {
			probed.accelerator = tcg
			log("lab: KVM does not boot a machine here; software emulation, about ten times slower")
		}
	})
	return probed.accelerator
}

func bootsOn(ctx context.Context, a accelerator, i image.VM) bool {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	args := append(slices.Clone(a.args), "-machine", "pc", "-m", "256", "-nodefaults", "-no-user-config", "-display", "none",
		"-no-reboot", "-serial", "stdio", "-kernel", i.Kernel, "-initrd", i.Initrd, "-append", "console=ttyS0 quiet lab.probe")
	out, _ := exec.CommandContext(ctx, qemu, args...).Output()
	return bytes.Contains(out, []byte("lab: the probe came up"))
}

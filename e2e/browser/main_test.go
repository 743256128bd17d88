package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/nodehitch/nodehitch/e2e/crowd"
)

// chromium is the browser of all tests; each tab has a profile of its own.
var chromium context.Context

func TestMain(m *testing.M) {
	crowd.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("NODEHITCH_LAB") == "required" {
			fmt.Fprintln(os.Stderr, "browser:", err, "(Debian's package chromium)")
			return 1
		}
		fmt.Println("SKIP: no test of this package runs:", err, "(Debian's package chromium)")
		return 0
	}
	// The controller has a certificate of its own authority, which no browser knows.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.IgnoreCertErrors, chromedp.WindowSize(1280, 900))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	var end context.CancelFunc
	chromium, end = chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "browser: chromium does not start:", err)
		return 1
	}
	return m.Run()
}

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// tab is one tab of the browser, with a profile of its own.
type tab struct {
	t   testing.TB
	c   *loopback.Controller
	ctx context.Context

	mu sync.Mutex
	// complaints is what the browser has to say about the page: errors of scripts, of the console, of
	// the network, and what the policy has forbidden.
	complaints []string
}

// open opens an empty tab. At the end of the test the browser must have had nothing to complain of.
func open(t testing.TB, c *loopback.Controller) *tab {
	t.Helper()
	b := &tab{t: t, c: c}
	var end context.CancelFunc
	b.ctx, end = chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	t.Cleanup(end)
	b.run(protocol(log.Enable, cdp.Empty{}), protocol(audits.Enable, cdp.Empty{}))
	t.Cleanup(func() {
		for _, complaint := range b.complained() {
			t.Errorf("the browser complains: %s", complaint)
		}
	})
	return b
}

func (b *tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complain("exception: " + fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeLog && e.Type != runtime.ConsoleAPICalledTypeDebug && e.Type != runtime.ConsoleAPICalledTypeInfo {
			text := "console." + string(e.Type)
			for _, arg := range e.Args {
				text += fmt.Sprintf(" %s%s", arg.Value, arg.Description)
			}
			b.complain(text)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelVerbose { // recommendations
			b.complain(fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodePerformanceIssue { // a test reads document.cookie
			return
		}
		text, err := json.Marshal(e.Issue.Details)
		b.complain(fmt.Sprintf("issue %s: %s %v", e.Issue.Code, text, err))
	}
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// complained is what the browser has complained of since the last call.
func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.complaints
	b.complaints = nil
	return all
}

// excuse takes complaints away that the test has provoked.
func (b *tab) excuse(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = slices.DeleteFunc(b.complaints, func(text string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	})
}

type action = chromedp.Action[chromedp.Void]

// protocol is a command of the browser's protocol.
func protocol[P, R any](command cdp.Command[P, R], params P) action {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, command, params)
		return chromedp.Void{}, err
	}
}

// run does something in the tab, which may take a minute.
func (b *tab) run(actions ...action) {
	b.t.Helper()
	for _, a := range actions {
		if _, err := do(b, a); err != nil {
			b.t.Fatalf("in the browser: %v; it complains: %q", err, b.complained())
		}
	}
}

func do[T any](b *tab, a chromedp.Action[T]) (T, error) {
	if chromedp.FromContext(b.ctx).Target == nil { // the first one makes the tab
		return chromedp.Run(b.ctx, a)
	}
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	return chromedp.Run(ctx, a)
}

// visit opens a page of the controller.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.c.URL + path))
}

// value is what an expression, or the promise that it is, gives.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := do(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true, over loads of pages.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	var last error
	loopback.Until(b.t, what, func() bool {
		is, err := do(b, chromedp.Evaluate[bool]("!!("+expression+")"))
		last = err
		return err == nil && is
	})
	if last != nil {
		b.t.Fatal(last)
	}
}

// untilShown waits for a text in the page.
func (b *tab) untilShown(text string) {
	b.t.Helper()
	b.until("the page shows "+text, fmt.Sprintf("document.body && document.body.innerText.includes(%q)", text))
}

// connected is true while the page says that it is told of changes.
const connected = "document.getElementById('connection').dataset.state == 'live'"

func (b *tab) untilConnected() {
	b.t.Helper()
	b.until("the page is live", connected)
}

// signIn signs in with a token, from the page that was asked for.
func (b *tab) signIn(token, path string) {
	b.t.Helper()
	b.visit(path)
	b.until("the form is shown", formShown)
	b.run(chromedp.SendKeys(chromedp.CSS("input[name=token]"), token+"\n"))
	b.until("the browser is led to "+path, fmt.Sprintf("document.readyState == 'complete' && location.pathname + location.search == %q", path))
}

// formShown is true where somebody has to sign in.
const formShown = "document.querySelector('input[name=token]')"

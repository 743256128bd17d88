package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
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
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	b := &tab{t: t, c: c, ctx: ctx}
	chromedp.ListenTarget(ctx, b.listen)
	b.run(log.Enable(), audits.Enable())
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
		b.complain("exception: " + e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.APITypeLog && e.Type != runtime.APITypeDebug && e.Type != runtime.APITypeInfo {
			text := "console." + string(e.Type)
			for _, arg := range e.Args {
				text += " " + string(arg.Value) + arg.Description
			}
			b.complain(text)
		}
	case *log.EventEntryAdded:
		b.complain(fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *audits.EventIssueAdded:
		text, _ := e.Issue.Details.MarshalJSON()
		b.complain(fmt.Sprintf("issue %s: %s", e.Issue.Code, text))
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

// run does something in the tab.
func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := b.try(actions...); err != nil {
		b.t.Fatalf("in the browser: %v; its complaints: %q", err, b.complained())
	}
}

func (b *tab) try(actions ...chromedp.Action) error {
	err := chromedp.Run(b.ctx, actions...)
	if err != nil && b.ctx.Err() == nil {
		return err
	}
	return err
}

// visit opens a page of the controller.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.run(limited(chromedp.Navigate(b.c.URL + path)))
}

// limited gives an action a minute.
func limited(a chromedp.Action) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return a.Do(ctx)
	})
}

// value is what an expression, or the promise that it is, gives.
func value[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	b.run(limited(chromedp.Evaluate(expression, &v, awaiting)))
	return v
}

func awaiting(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// until waits for an expression to be true, over loads of pages.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	var last error
	loopback.Until(b.t, what, func() bool {
		var is bool
		last = b.try(limited(chromedp.Evaluate("!!("+expression+")", &is)))
		return last == nil && is
	})
}

// untilShown waits for a text in the page.
func (b *tab) untilShown(text string) {
	b.t.Helper()
	b.until("the page shows "+text, fmt.Sprintf("document.body && document.body.innerText.includes(%q)", text))
}

// signIn signs in with a token, from the page that was asked for.
func (b *tab) signIn(token, path string) {
	b.t.Helper()
	b.visit(path)
	b.until("the form is there", formShown)
	b.run(limited(chromedp.SendKeys("input[name=token]", token, chromedp.ByQuery)), limited(chromedp.Submit("input[name=token]", chromedp.ByQuery)))
	b.until("the browser is led to "+path, fmt.Sprintf("document.readyState == 'complete' && location.pathname + location.search == %q", path))
}

// formShown is true where somebody has to sign in.
const formShown = "document.querySelector('input[name=token]')"

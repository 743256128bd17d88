// Package browser shows the status page in a real browser, Chromium, against the real controller.
// Times are figures of the cases; what is asserted are states and counts.
package browser

package cases

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What happens on the line between the machine and the controller.
var _ = add(map[string]stepFunc{
	"lose-answers": (*run).loseAnswers,
	"mend-line":    (*run).mendLine,
})

// line passes on what a machine and the controller say to one another. What the
// controller says is lost, and the connection with it, while lose says so.
type line struct {
	lab  *lab.Lab
	lose func() bool
	good atomic.Bool  // nothing is lost any more
	lost atomic.Int64 // answers
}

const (
	linePort       = "9443"
	controllerPort = "8443"
)

// loseAnswers puts a line between the machine and the controller on which every
// answer is lost from the moment on at which the controller has on disk that the
// format of the disk has started: so the answer to that message is the first.
func (r *run) loseAnswers(ctx context.Context, s Step) error {
	r.line = &line{lab: r.site.Lab, lose: func() bool {
		var v api.Volume
		err := r.site.JSON(r.t.Context(), &v, "get", "volume", r.disks[s.Disk].VolumeID)
		return err == nil && v.PermitState == api.PermitStarted
	}}
	listener, err := r.site.Lab.Listen(ctx, "tcp", net.JoinHostPort(lab.Gateway.String(), linePort))
	if err != nil {
		return err
	}
	r.t.Cleanup(func() { _ = listener.Close() })
	go r.line.serve(listener)
	r.cutOff = true
	_, err = r.node.Exec(ctx, "sh", "-euc", `sed -i "s/:$1/:$2/" /etc/nodehitch/agent.yaml; systemctl restart nodehitch-agent`, "sh", controllerPort, linePort)
	return err
}

func (r *run) mendLine(context.Context, Step) error {
	if r.line.lost.Load() == 0 {
		return fmt.Errorf("no answer was lost")
	}
	r.line.good.Store(true)
	r.cutOff = false
	return nil
}

func (l *line) serve(listener net.Listener) {
	for {
		node, err := listener.Accept()
		if err != nil {
			return
		}
		go l.pass(node)
	}
}

// pass ends when one of the two hangs up, or an answer is lost.
func (l *line) pass(node net.Conn) {
	defer node.Close()
	controller, err := l.lab.Dial(context.Background(), "tcp", net.JoinHostPort(lab.Gateway.String(), controllerPort))
	if err != nil {
		return
	}
	defer controller.Close()
	go func() {
		_, _ = io.Copy(controller, node)
		controller.Close()
	}()
	answer := make([]byte, 64<<10)
	for {
		n, err := controller.Read(answer)
		if n > 0 && !l.good.Load() && l.lose() {
			l.lost.Add(1)
			return
		}
		if _, failed := node.Write(answer[:n]); err != nil || failed != nil {
			return
		}
	}
}

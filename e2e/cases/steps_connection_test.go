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

// What happens to the connection between the machine and the controller.
var _ = add(map[string]stepFunc{
	"lose-answers":    (*run).loseAnswers,
	"mend-connection": (*run).mendConnection,
})

// lossyProxy stands between a machine and the controller. While lose says so, it drops an
// answer of the controller and its connection.
type lossyProxy struct {
	lab  *lab.Lab
	lose func() bool
	good atomic.Bool  // nothing is lost any more
	lost atomic.Int64 // answers
}

const (
	proxyPort      = "9443"
	controllerPort = "8443"
)

// loseAnswers puts a proxy between the machine and the controller. It drops every answer
// from the moment at which the controller has on disk that the format has started, so the
// answer to that message is the first.
func (r *run) loseAnswers(ctx context.Context, s Step) error {
	r.proxy = &lossyProxy{lab: r.site.Lab, lose: func() bool {
		var v api.Volume
		err := r.site.JSON(r.t.Context(), &v, "get", "volume", r.disks[s.Disk].VolumeID)
		return err == nil && v.PermitState == api.PermitStarted
	}}
	listener, err := r.site.Lab.Listen(ctx, "tcp", net.JoinHostPort(lab.Gateway.String(), proxyPort))
	if err != nil {
		return err
	}
	r.t.Cleanup(func() { _ = listener.Close() })
	go r.proxy.serve(listener)
	r.cutOff = true
	_, err = r.node.Exec(ctx, "sh", "-euc", `sed -i "s/:$1/:$2/" /etc/nodehitch/agent.yaml; systemctl restart nodehitch-agent`, "sh", controllerPort, proxyPort)
	return err
}

func (r *run) mendConnection(context.Context, Step) error {
	if r.proxy.lost.Load() == 0 {
		return fmt.Errorf("no answer was lost")
	}
	r.proxy.good.Store(true)
	r.cutOff = false
	return nil
}

func (l *lossyProxy) serve(listener net.Listener) {
	for {
		node, err := listener.Accept()
		if err != nil {
			return
		}
		go l.pass(node)
	}
}

// pass ends when one of the two hangs up, or an answer is lost.
func (l *lossyProxy) pass(node net.Conn) {
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

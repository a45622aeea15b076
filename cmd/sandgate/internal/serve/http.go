package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	httpgate "github.com/sandgate/sandgate/adapters/http"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/boards"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/web"
)

// An httpSide is the web page and the bridges of a supervisor.
type httpSide struct {
	server *httpgate.Server
	status *protocol.HTTPStatus
	close  func() error // of the listener; Serve closes it too
}

// listenHTTP opens the port that a flag or else the configuration names, or nil. The
// token is there before any tool is planned, so that it is kept from them all.
func listenHTTP(a *cli.App, cfg *config.Config, flag string, s *sockets) (*httpSide, error) {
	address := cmp.Or(flag, cfg.HTTP.Listen)
	if address == "" {
		return nil, nil
	}
	file, err := assemble.TokenFile(cfg)
	if err != nil {
		return nil, err
	}
	l, err := listenLoopback(address)
	if err != nil {
		return nil, err
	}
	token, err := httpgate.Token(file)
	if err != nil {
		_ = l.Close() // nothing has come in yet
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	operators := s.operator.Addr().String()
	dial := func(ctx context.Context) (*client.Approver, error) {
		return client.DialApprover(ctx, operators, client.WithProgram("sandgate http", a.Version))
	}
	server := httpgate.New(httpgate.Config{Listener: l, Token: token, Approver: dial, Page: web.Files(), Live: web.Live(web.Options{Dial: dial, Stores: boards.Stores(a, cfg.File)})})
	return &httpSide{server, &protocol.HTTPStatus{Address: l.Addr().String(), TokenFile: file}, l.Close}, nil
}

// listenLoopback opens a port that only programs of this machine reach.
func listenLoopback(address string) (net.Listener, error) {
	l, err := httpgate.Listen(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, cli.WithHint(cli.WithStatus(cli.ExitInternal, err), "another program listens there, and a browser could mistake it for sandgate; choose another port with --http or http.listen, or 0 for any free port")
	case errors.Is(err, httpgate.ErrNotLoopback):
		return nil, cli.WithHint(cli.UsageError(err), "use 127.0.0.1 or [::1], because only programs on this machine may connect; from elsewhere, use a tunnel")
	case errors.Is(err, httpgate.ErrNotBoth):
		return nil, cli.WithHint(cli.UsageError(err), "use 127.0.0.1: with another address, a browser could look for the page where another program listens")
	case err != nil:
		return nil, cli.UsageError(err)
	}
	return l, nil
}

// announceHTTP prints a link to a person. A log gets the bare address: others may read the
// log, and only the user needs the name that the page has this time.
func announceHTTP(a *cli.App, w *httpSide) {
	if cli.IsTerminal(a.Err) {
		fmt.Fprintf(cli.Bare(a.Err), "sandgate: web page   %s\n", w.server.Link()) // whole, to be clicked
		fmt.Fprintf(a.Err, "sandgate:            the link works once, within %.0f minutes; get another with `sandgate approve --web`\n", httpgate.TicketTime.Minutes())
		return
	}
	fmt.Fprintf(a.Err, "sandgate: web page   on %s (get a link with `sandgate approve --web`)\n", w.status.Address)
}

// PrintLink asks the running supervisor for a link to its page.
func PrintLink(ctx context.Context, a *cli.App, socket string) error {
	p, err := client.DialApprover(ctx, socket, client.WithProgram("sandgate approve", a.Version))
	if err != nil {
		return cli.WireStatus(err)
	}
	defer p.Close()
	st, err := p.Status(ctx)
	if err != nil {
		return cli.WireStatus(err)
	}
	if st.HTTP == nil {
		return cli.WithHint(cli.WithStatus(cli.ExitInternal, errors.New("the supervisor does not serve a web page")),
			"start it with `sandgate serve --http 127.0.0.1:8642`, or set http.listen")
	}
	link, err := httpgate.NewLink(ctx, st.HTTP.Address, st.HTTP.TokenFile)
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	fmt.Fprintln(cli.Bare(a.Out), link)
	return nil
}

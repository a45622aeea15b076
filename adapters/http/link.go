package httpgate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// NewLink asks the server at address, which a running supervisor has named, for a link
// to its page. It shows the token there: an address from elsewhere, such as a
// configuration, could be one that another user's program listens on meanwhile.
func NewLink(ctx context.Context, address, tokenFile string) (string, error) {
	token, err := readToken(tokenFile)
	if err != nil {
		return "", &TokenError{tokenFile, err}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/tickets", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	t := &http.Transport{Proxy: nil} // a proxy of the environment has no business with a token
	defer t.CloseIdleConnections()
	res, err := (&http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask %s for a link: %s", address, res.Status)
	}
	var body struct {
		URL string `json:"url"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&body); err != nil {
		return "", fmt.Errorf("ask %s for a link: %w", address, err)
	}
	return body.URL, nil
}

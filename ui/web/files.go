package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

//go:embed assets
var assets embed.FS

// Files are the files of the page by the paths under which they are asked for. They
// are the same for everybody, and there is nothing else to be had: a path is a key of
// this map, and never the name of a file.
func Files() map[string]http.Handler {
	files := map[string]http.Handler{}
	list, err := fs.ReadDir(assets, "assets")
	for _, f := range list {
		var content []byte
		if content, err = assets.ReadFile("assets/" + f.Name()); err != nil {
			break
		}
		name := "/" + f.Name()
		if f.Name() == "index.html" {
			name = "/"
		}
		files[name] = file(mediaType(f.Name()), content)
	}
	if err != nil {
		panic(err) // they are part of the program
	}
	return files
}

// mediaType does not ask the machine, whose tables may say anything of .js.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".html":
		return "text/html; charset=utf-8"
	}
	return mime.FormatMediaType("application/octet-stream", nil)
}

func file(mediaType string, content []byte) http.Handler {
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-cache") // ask each time: a page and scripts of two versions do not fit
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", mediaType)
		_, _ = w.Write(content) // whoever asked is gone
	})
}

package present

import "strings"

// Words are what the page and the screen of `sandgate approve` both say: one thing has one text, whoever
// reads it. The page gets them from its server. "{}" stands for a number or a name.
var Words = struct {
	TooSoon      string `json:"too_soon"`
	NotWhole     string `json:"not_whole"`
	Back         string `json:"back"`
	GoOn         string `json:"go_on"`
	TextGone     string `json:"text_gone"`
	TextEnded    string `json:"text_ended"`
	Nothing      string `json:"nothing"`
	Waiting      string `json:"waiting"`
	Appear       string `json:"appear"`
	Write        string `json:"write"`
	OtherDenials string `json:"other_denials"`
	LookTwice    string `json:"look_twice"`
	ThisIs       string `json:"this_is"`
	Arguments    string `json:"arguments"`
	Edited       string `json:"edited"`
	EditPending  string `json:"edit_pending"`
	NotEditable  string `json:"not_editable"`
	Restored     string `json:"restored"`
	OnceEdited   string `json:"once_edited"`
	OnceEach     string `json:"once_each"`
	Unread       string `json:"unread"`
	WasCut       string `json:"was_cut"`
	Unshown      string `json:"unshown"`
	GroupLarge   string `json:"group_large"`
	GroupEdited  string `json:"group_edited"`
	GroupUnshown string `json:"group_unshown"`
	Group        string `json:"group"`
	Refresh      string `json:"refresh"`
	RefreshKey   string `json:"refresh_key"`
	AllReach     string `json:"all_reach"`
}{
	TooSoon:      "That came too soon, or was typed before: pause, then press.",
	NotWhole:     "Not all that the answer means is on the screen: enlarge it, or scroll.",
	Back:         "Back",
	GoOn:         "Enter, Esc or a click continues.",
	TextGone:     "Your text is gone, and keys do not answer. Esc or a click continues.",
	TextEnded:    "Your text was about that request and is not sent. Esc or a click continues.",
	Nothing:      "Nothing is waiting",
	Waiting:      "{} waiting",
	Appear:       "Requests appear here as they arrive.",
	Write:        "{}: write to the model. Enter sends it, Esc goes back.",
	OtherDenials: "Other ways to deny",
	LookTwice:    "Look twice",
	ThisIs:       "this is {}",
	Arguments:    "The arguments, as JSON. You see the edited call before you allow it.",
	Edited:       "Edited by you: allowing runs this once instead of the agent's call. Esc goes back to that.",
	EditPending:  "Your edit is still being checked. Esc leaves it.",
	NotEditable:  "The arguments of this request cannot be edited.",
	Restored:     "The arguments are the agent's again.",
	OnceEdited:   "Edited arguments can only be allowed once: nothing is remembered.",
	OnceEach:     "Each such request is answered on its own: no answer can be remembered.",
	Unread:       "Not all of the request has been on the screen: scroll through it.",
	WasCut:       "The text was cut: v shows all of it.",
	Unshown:      "No screen can show {}.",
	GroupLarge:   "{} are too many at once: answer one by one, or remember a pattern (r).",
	GroupEdited:  "One of the group is edited: answer one by one, or press Esc on it.",
	GroupUnshown: "No screen can show all of one of the group: answer one by one.",
	Group:        "Pending in its group: {}. A looks at all, D denies all.",
	Refresh:      "Refresh",
	RefreshKey:   "r",
	AllReach:     "All it may reach",
}

// With is one of the Words with its number or name.
func With(words, part string) string { return strings.Replace(words, "{}", part, 1) }

package main

// familyPicture shows the processes of a session: who is whose child, what falls to whom, and what ends it all.
func familyPicture() string {
	c := canvas{width: 860, height: 330, title: "The processes of one session: the gateway starts the anchor, the anchor the supervisor, the supervisor the server"}
	const y, height = 60, 44
	box := func(x, y, width int, class, name, note string) {
		c.rect(x, y, width, height, class)
		c.text(x+10, y+19, "head", name)
		c.text(x+10, y+35, "small", note)
	}
	c.text(20, 318, "small", "A solid arrow leads from parent to child.")
	box(20, y, 130, "box", "gateway", "Codex, Claude Code")
	box(200, y, 130, "ours", "anchor", "mcp-tether run")
	box(380, y, 130, "ours", "supervisor", "a session of its own")
	box(580, y, 130, "box", "server", "npx, uvx, docker run")
	box(580, y+80, 130, "box", "worker", "child of the server")
	box(580, y+160, 130, "box", "helper", "setsid, double fork")
	for _, x := range []int{150, 330} {
		c.arrow("line", x, y+22, x+50, y+22)
	}
	c.arrow("line", 510, y+22, 580, y+22)
	c.arrow("line", 645, y+height, 645, y+80)
	// The helper has lost its parent, and the supervisor has it instead.
	c.arrow("line", 445, y+height, 445, y+182, 580, y+182)
	c.text(395, y+200, "small", "orphans fall to the supervisor")
	c.rect(560, 44, 170, 238, "leaf")
	c.text(740, 58, "small", "a cgroup, where")
	c.text(740, 73, "small", "one can be made")
	c.arrow("found", 445, y, 445, y-20, 85, y-20, 85, y)
	c.text(95, y-26, "small", "watched by pidfd: its death ends the session")
	c.arrow("found", 265, y+height, 265, y+height+26, 395, y+height+26, 395, y+height)
	c.text(230, y+height+42, "small", "takes over if that is killed")
	box(200, y+180, 130, "box", "container", "the engine's child")
	c.arrow("found", 415, y+height, 415, y+140, 265, y+140, 265, y+180)
	c.text(200, y+242, "small", "known by label and journal, and removed")
	return c.String()
}

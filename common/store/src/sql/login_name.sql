SELECT session_user::text AS login
